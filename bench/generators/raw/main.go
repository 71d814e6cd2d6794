// Command raw is a closed loop of HTTP/1.1 requests or unary gRPC calls with ready-made bytes: a client in another language, with
// other protocol stacks (net/http, grpc-go) and another clock than Locust's.
//
// Each user has a connection of its own and sends the next request when the answer is in. After the warm-up it prints `idle`. For
// each line on stdin it calls for so many seconds, and prints one line of JSON with the numbers that bench/measure/meter.py has of a
// load process. A status other than 200 or OK is a failure.
//
// Receive windows are grpc-go's defaults: they begin at 64 KiB and grow with the measured bandwidth. They bound answers only;
// requests are bounded by the windows of the server.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Users of a route that is down would otherwise fail as fast as they can, at the cost of everything else (as in Locust).
const pauseAfterFailure = 100 * time.Millisecond

// raw hands bytes through: no protobuf work. Its name is empty so that the content type is application/grpc, as Locust's.
type raw struct{}

func (raw) Name() string { return "" }

func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

type result struct {
	Requests       int64            `json:"requests"` // successful
	Failures       int64            `json:"failures"`
	Errors         map[string]int64 `json:"errors"`
	SteadySeconds  float64          `json:"steady_s"`
	SteadyRequests float64          `json:"steady_requests"` // a call that lies in the steady window in part counts in part
	Seconds        float64          `json:"counted_s"`
	SumMs          float64          `json:"sum_ms"`
	CPUMs          float64          `json:"cpu_ms"`
	Latencies      [][2]int64       `json:"latencies_us"` // of calls that began in the steady window: [latency, how many], ascending
}

// client is one user's connection.
type client interface {
	call(ctx context.Context, payload []byte) error
	close()
}

type load struct {
	protocol, address, path string
	headers                 []string // name, value, name, value, ...
	payloads                [][]byte
	deadline                time.Duration
	cold                    bool
	steady                  float64

	sync.Mutex
	steadyFrom, end time.Time
	latencies       map[int64]int64
	found           result
}

type httpClient struct {
	*load
	http.Client
}

func (c *httpClient) call(ctx context.Context, payload []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+c.path, bytes.NewReader(payload))
	if err != nil {
		fail(err)
	}
	for i := 0; i < len(c.headers); i += 2 {
		request.Header.Set(c.headers[i], c.headers[i+1])
	}
	answer, err := c.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := io.ReadAll(answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("HTTP %d", answer.StatusCode)
	}
	return nil
}

func (c *httpClient) close() { c.CloseIdleConnections() }

type grpcClient struct {
	*load
	*grpc.ClientConn
}

func (c *grpcClient) call(ctx context.Context, payload []byte) error {
	ctx = metadata.AppendToOutgoingContext(ctx, c.headers...)
	var answer []byte
	return c.Invoke(ctx, c.path, payload, &answer)
}

func (c *grpcClient) close() { c.ClientConn.Close() }

func (l *load) connect() client {
	if l.protocol == "HTTP" {
		// One connection, kept, to this address and not to a proxy; answers as they are.
		return &httpClient{l, http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DisableCompression: true}}}
	}
	// passthrough: the name is resolved when the connection is made, by the system.
	connection, err := grpc.NewClient("passthrough:///"+l.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}),
			grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		fail(err)
	}
	return &grpcClient{l, connection}
}

// run has all users call for so long, and returns when the last has its answer. Each begins with another payload, else all of them
// would send the large ones together.
func (l *load) run(clients []client, seconds float64) {
	begin := time.Now()
	l.found, l.latencies = result{Errors: map[string]int64{}}, map[int64]int64{}
	l.end = begin.Add(time.Duration(seconds * float64(time.Second)))
	l.steadyFrom = begin.Add(time.Duration((1 - l.steady) * seconds * float64(time.Second)))
	cpu := cpuMs()
	var running sync.WaitGroup
	for number, one := range clients {
		running.Add(1)
		go func() {
			defer running.Done()
			for i := number; time.Now().Before(l.end); i++ {
				if err := l.turn(one, l.payloads[i%len(l.payloads)]); err != nil {
					time.Sleep(pauseAfterFailure)
				}
			}
		}()
	}
	running.Wait()
	l.found.CPUMs, l.found.Seconds = cpuMs()-cpu, time.Since(begin).Seconds()
	l.found.SteadySeconds = l.end.Sub(l.steadyFrom).Seconds()
}

// turn makes one call and counts it; a cold one connects first, and closes after, inside the clock.
func (l *load) turn(one client, payload []byte) error {
	start := time.Now()
	if l.cold {
		one = l.connect()
		defer one.close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.deadline)
	defer cancel()
	err := one.call(ctx, payload)
	end := time.Now()
	elapsed := end.Sub(start)
	l.Lock()
	defer l.Unlock()
	if err != nil {
		l.found.Failures++
		l.found.Errors[status.Code(err).String()+": "+status.Convert(err).Message()]++
		return err
	}
	l.found.Requests++
	l.found.SumMs += elapsed.Seconds() * 1e3
	if !start.Before(l.steadyFrom) {
		l.latencies[elapsed.Microseconds()]++
	}
	inside := min(end.UnixNano(), l.end.UnixNano()) - max(start.UnixNano(), l.steadyFrom.UnixNano())
	l.found.SteadyRequests += max(0, float64(inside)/float64(elapsed.Nanoseconds()))
	return nil
}

func (l *load) result() result {
	l.found.Latencies = [][2]int64{}
	for latency, count := range l.latencies {
		l.found.Latencies = append(l.found.Latencies, [2]int64{latency, count})
	}
	slices.SortFunc(l.found.Latencies, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	return l.found
}

// cpuMs is the CPU time of this process so far.
func cpuMs() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		fail(err)
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e6
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "raw:", err)
	os.Exit(2)
}

func main() {
	l := &load{}
	flag.StringVar(&l.protocol, "protocol", "", "HTTP or gRPC")
	flag.StringVar(&l.address, "address", "", "host:port")
	flag.StringVar(&l.path, "path", "", "the path of the URL, or /package.Service/Method")
	flag.Func("header", "name=value, as often as needed: an HTTP header or gRPC metadata", func(pair string) error {
		name, value, _ := strings.Cut(pair, "=")
		l.headers = append(l.headers, name, value)
		return nil
	})
	users := flag.Int("users", 1, "how many callers at once")
	policy := flag.String("policy", "pooled", "connections: pooled (one per user), shared (one for all) or cold (one per call)")
	warmUp := flag.Float64("warm-s", 1, "seconds before anything is counted")
	seconds := flag.Float64("seconds", 5, "seconds that are counted")
	flag.Float64Var(&l.steady, "steady", 1, "the share of them at their end whose latencies are recorded")
	deadline := flag.Float64("deadline-s", 30, "an answer that takes longer is a failure")
	flag.Parse()

	// The servers share the machine, and one core carries thousands of calls per second.
	runtime.GOMAXPROCS(1)
	if !slices.Contains([]string{"pooled", "shared", "cold"}, *policy) {
		fail(fmt.Errorf("unknown policy %q: choose pooled, shared or cold", *policy))
	}
	if l.address == "" || l.path == "" || flag.NArg() == 0 || !slices.Contains([]string{"HTTP", "gRPC"}, l.protocol) {
		fail(fmt.Errorf("needs --protocol, --address, --path, and one file or more whose bytes are the requests"))
	}
	for _, path := range flag.Args() {
		payload, err := os.ReadFile(path)
		if err != nil {
			fail(err)
		}
		l.payloads = append(l.payloads, payload)
	}
	l.deadline = time.Duration(*deadline * float64(time.Second))
	l.cold = *policy == "cold"

	clients := make([]client, *users)
	for number := range clients {
		if *policy == "pooled" || (*policy == "shared" && number == 0) {
			clients[number] = l.connect()
		} else {
			clients[number] = clients[0]
		}
	}
	l.run(clients, *warmUp)
	fmt.Println("idle")
	for turns := bufio.NewScanner(os.Stdin); turns.Scan(); {
		l.run(clients, *seconds)
		if err := json.NewEncoder(os.Stdout).Encode(l.result()); err != nil {
			fail(err)
		}
	}
}
