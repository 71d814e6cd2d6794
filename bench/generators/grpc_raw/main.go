// Command grpc-raw is a closed loop of unary gRPC calls with ready-made bytes: what Locust's latencies are checked against.
//
// It shares nothing with Locust: another language, another HTTP/2 implementation (grpc-go), another clock. Each user has a
// connection of its own and makes the next call when the answer is in. Calls that begin after the warm-up and before the end
// are counted; a status other than OK is a failure. The result is one line of JSON on stdout, latencies in microseconds.
//
// Receive windows are grpc-go's defaults, as Locust's are those of gRPC's C core: both begin at 64 KiB and grow with the
// measured bandwidth. They bound answers only; requests are bounded by the windows of the server.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
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
	Requests  int64            `json:"requests"` // successful
	Failures  int64            `json:"failures"`
	Errors    map[string]int64 `json:"errors"`
	Seconds   float64          `json:"seconds"`
	Latencies [][2]int64       `json:"latencies_us"` // of successful calls: [latency, how many], ascending
}

type load struct {
	address, method string
	metadata        []string // name, value, name, value, ...
	payloads        [][]byte
	deadline        time.Duration
	cold            bool
	begin, end      time.Time

	sync.Mutex
	latencies map[int64]int64
	errors    map[string]int64
}

func (l *load) connect() *grpc.ClientConn {
	// passthrough: the name is resolved when the connection is made, by the system.
	connection, err := grpc.NewClient("passthrough:///"+l.address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}),
			grpc.MaxCallRecvMsgSize(math.MaxInt32), grpc.MaxCallSendMsgSize(math.MaxInt32)))
	if err != nil {
		fail(err)
	}
	return connection
}

// user calls until the end. Each begins with another payload, else all of them would send the large ones together.
func (l *load) user(connection *grpc.ClientConn, number int) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), l.metadata...)
	for i := number; time.Now().Before(l.end); i++ {
		start := time.Now()
		err := l.call(ctx, connection, l.payloads[i%len(l.payloads)])
		elapsed := time.Since(start)
		if !start.Before(l.begin) {
			l.Lock()
			if err != nil {
				l.errors[status.Code(err).String()+": "+status.Convert(err).Message()]++
			} else {
				l.latencies[elapsed.Microseconds()]++
			}
			l.Unlock()
		}
		if err != nil {
			time.Sleep(pauseAfterFailure)
		}
	}
}

// call makes one call; a cold one connects first, and closes after, inside the clock.
func (l *load) call(ctx context.Context, connection *grpc.ClientConn, payload []byte) error {
	if l.cold {
		connection = l.connect()
		defer connection.Close()
	}
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	var answer []byte
	return connection.Invoke(ctx, l.method, payload, &answer)
}

func (l *load) result() result {
	found := result{Errors: l.errors, Seconds: l.end.Sub(l.begin).Seconds(), Latencies: [][2]int64{}}
	for latency, count := range l.latencies {
		found.Latencies = append(found.Latencies, [2]int64{latency, count})
		found.Requests += count
	}
	for _, count := range l.errors {
		found.Failures += count
	}
	slices.SortFunc(found.Latencies, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	return found
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "grpc-raw:", err)
	os.Exit(2)
}

func main() {
	l := &load{latencies: map[int64]int64{}, errors: map[string]int64{}}
	flag.StringVar(&l.address, "address", "", "host:port")
	flag.StringVar(&l.method, "method", "", "/package.Service/Method")
	flag.Func("metadata", "name=value, as often as needed", func(pair string) error {
		name, value, _ := strings.Cut(pair, "=")
		l.metadata = append(l.metadata, name, value)
		return nil
	})
	users := flag.Int("users", 1, "how many callers at once")
	policy := flag.String("policy", "pooled", "connections: pooled (one per user), shared (one for all) or cold (one per call)")
	warmUp := flag.Float64("warmup-s", 1, "seconds before anything is counted")
	seconds := flag.Float64("seconds", 5, "seconds that are counted")
	deadline := flag.Float64("deadline-s", 30, "an answer that takes longer is a failure")
	flag.Parse()

	// The servers share the machine, and one core carries thousands of calls per second.
	runtime.GOMAXPROCS(1)
	if !slices.Contains([]string{"pooled", "shared", "cold"}, *policy) {
		fail(fmt.Errorf("unknown policy %q: choose pooled, shared or cold", *policy))
	}
	if l.address == "" || l.method == "" || flag.NArg() == 0 {
		fail(fmt.Errorf("needs --address, --method, and one file or more whose bytes are the requests"))
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

	var connection *grpc.ClientConn
	l.begin = time.Now().Add(time.Duration(*warmUp * float64(time.Second)))
	l.end = l.begin.Add(time.Duration(*seconds * float64(time.Second)))
	var running sync.WaitGroup
	for number := range *users {
		if *policy == "pooled" || (*policy == "shared" && number == 0) {
			connection = l.connect()
		}
		running.Add(1)
		go func(connection *grpc.ClientConn) {
			defer running.Done()
			l.user(connection, number)
		}(connection)
	}
	running.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(l.result()); err != nil {
		fail(err)
	}
}
