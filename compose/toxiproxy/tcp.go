package main

import (
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// What a sender may have in flight before the first acknowledgement: ten segments (RFC 6928), as Linux has it.
const initialWindow = 10 * 1448

// tcp is a toxic that simulates the cost of a new TCP connection over a distance. Both ends of a connection to the
// proxy are near, so their own handshake takes no time and their windows open at once.
//
// The handshake is a round trip before the first byte. In slow start a sender waits when its window is full; what it sent is acknowledged
// a round trip later, and a window that was at least half used grows by that much. Nothing is lost, so it grows for as long as the
// connection lives. Not simulated: the window shrinks while a connection is idle, and acknowledgements wait behind a
// narrow bandwidth.
type tcp struct {
	RoundTrip int64 `json:"round_trip"` // milliseconds
	Handshake bool  `json:"handshake"`  // for the direction in which the client sends
}

type sent struct {
	bytes        int
	acknowledged time.Time
	grows        bool
}

type connection struct {
	opened         time.Time
	window, flight int
	unacknowledged []sent
}

func (t *tcp) NewState() interface{} {
	return &connection{opened: time.Now(), window: initialWindow}
}

func (t *tcp) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if !t.send(stub, chunk.Data) {
				return
			}
		}
	}
}

// send passes everything on with its delay. When the toxic is removed it passes the rest on at once and returns false.
func (t *tcp) send(stub *toxics.ToxicStub, data []byte) bool {
	c := stub.State.(*connection)
	roundTrip := time.Duration(t.RoundTrip) * time.Millisecond
	going := true
	if t.Handshake {
		going = wait(stub, c.opened.Add(roundTrip))
	}
	for len(data) > 0 {
		now := time.Now()
		c.acknowledge(now)
		piece := min(len(data), c.window-c.flight)
		if !going {
			piece = len(data)
		}
		if piece <= 0 {
			going = wait(stub, c.unacknowledged[0].acknowledged)
			continue
		}
		stub.Output <- &stream.StreamChunk{Data: data[:piece], Timestamp: now}
		c.flight += piece
		c.unacknowledged = append(c.unacknowledged, sent{piece, now.Add(roundTrip), 2*c.flight >= c.window})
		data = data[piece:]
	}
	return going
}

func (c *connection) acknowledge(now time.Time) {
	for len(c.unacknowledged) > 0 && !c.unacknowledged[0].acknowledged.After(now) {
		first := c.unacknowledged[0]
		c.unacknowledged = c.unacknowledged[1:]
		c.flight -= first.bytes
		if first.grows {
			c.window += first.bytes
		}
	}
}

// wait returns false if the toxic is removed meanwhile.
func wait(stub *toxics.ToxicStub, until time.Time) bool {
	select {
	case <-time.After(time.Until(until)):
		return true
	case <-stub.Interrupt:
		return false
	}
}
