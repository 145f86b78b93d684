// Mockcsi serves the mock CSI driver of Kubernetes' own end-to-end tests on a unix socket.
//
// The driver keeps its volumes in memory: after a restart those it was asked to create are gone, and asking for one
// answers NOT_FOUND together with an abnormal volume condition.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/driver"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"
)

// Volumes that the mock service has from the start, with ids "1", "2" and "3".
const builtin = 3

func main() {
	socket := flag.String("socket", "", "path of the unix socket to serve on")
	name := flag.String("name", "mock.csi.example", "driver name to report")
	volumes := flag.Int("volumes", builtin, "how many volumes exist at start, with ids 1 to this number (at least 3)")
	flag.Parse()
	if err := serve(*socket, *name, *volumes); err != nil {
		fmt.Fprintln(os.Stderr, "mockcsi:", err)
		os.Exit(1)
	}
}

func serve(socket, name string, volumes int) error {
	mock := service.New(service.Config{DriverName: name})
	for id := builtin + 1; id <= volumes; id++ {
		if err := create(mock, fmt.Sprintf("volume-%d", id)); err != nil {
			return err
		}
	}
	// A socket file left behind by a killed instance would make the address "in use".
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := driver.NewCSIDriver(&driver.CSIDriverServers{Controller: mock, Identity: mock, Node: mock})
	if err := server.Start(listener, passThrough); err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	server.Stop()
	return nil
}

func create(mock service.Service, name string) error {
	_, err := mock.CreateVolume(context.Background(), &csi.CreateVolumeRequest{
		Name:               name,
		VolumeCapabilities: []*csi.VolumeCapability{{}},
	})
	return err
}

// passThrough replaces the driver's default interceptor, which prints every call.
func passThrough(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	return handler(ctx, request)
}
