// Toxiproxy's server with one additional toxic, tcp. Its API, its own toxics and its file of proxies are unchanged.
package main

import (
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

const (
	api     = "0.0.0.0:8474"
	proxies = "/etc/toxiproxy/proxies.json"
)

func main() {
	toxics.Register("tcp", new(tcp))
	logger := zerolog.New(os.Stdout).With().Timestamp().Logger().Level(zerolog.WarnLevel)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), logger)
	server.PopulateConfig(proxies)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ended
		if err := server.Shutdown(); err != nil {
			log.Print(err)
		}
	}()
	if err := server.Listen(api); err != nil && err != http.ErrServerClosed {
		log.Fatal(err)
	}
}
