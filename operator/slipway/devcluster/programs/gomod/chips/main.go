// A device plugin with fake chips: the kubelet of a node learns from it which chips there are and which are healthy.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	endpoint = "slipway-chips.sock"
	patience = 30 * time.Second
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	resource string
	count    int
	// A chip is unhealthy while there is a file of its name in this folder.
	broken string

	server  *grpc.Server // for the kubelet that runs now
	lock    sync.Mutex
	changed chan struct{} // closed at the next change
}

func (p *plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// ListAndWatch sends the chips now and after each change, for as long as the kubelet listens.
func (p *plugin) ListAndWatch(_ *api.Empty, kubelet grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for {
		next := p.nextChange()
		if err := kubelet.Send(&api.ListAndWatchResponse{Devices: p.chips()}); err != nil {
			return err
		}
		select {
		case <-next:
		case <-kubelet.Context().Done():
			return nil
		}
	}
}

// Allocate has nothing to add to a container: there is no device file behind a fake chip.
func (p *plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for range asked.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &api.ContainerAllocateResponse{})
	}
	return answer, nil
}

func (p *plugin) chips() []*api.Device {
	var found []*api.Device
	for number := range p.count {
		chip := &api.Device{ID: fmt.Sprintf("chip-%d", number), Health: api.Healthy}
		if _, err := os.Stat(filepath.Join(p.broken, chip.ID)); err == nil {
			chip.Health = api.Unhealthy
		}
		found = append(found, chip)
	}
	return found
}

func (p *plugin) nextChange() <-chan struct{} {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.changed
}

func (p *plugin) change() {
	p.lock.Lock()
	defer p.lock.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

// serve offers the chips to a kubelet that has just started; a kubelet removes the sockets of its predecessor's plugins.
func (p *plugin) serve() error {
	if p.server != nil {
		p.server.Stop()
	}
	socket := filepath.Join(api.DevicePluginPath, endpoint)
	if err := os.RemoveAll(socket); err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer()
	api.RegisterDevicePluginServer(p.server, p)
	go p.server.Serve(listener)
	return p.register()
}

func (p *plugin) register() error {
	// The socket is there a moment before the kubelet listens to it.
	retries := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
		MinConnectTimeout: patience,
	}
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(retries))
	if err != nil {
		return err
	}
	defer connection.Close()
	limited, done := context.WithTimeout(context.Background(), patience)
	defer done()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: p.resource}
	_, err = api.NewRegistrationClient(connection).Register(limited, request, grpc.WaitForReady(true))
	return err
}

func listens(socket string) bool {
	connection, err := net.Dial("unix", socket)
	if err != nil {
		return false
	}
	connection.Close()
	return true
}

func run(p *plugin) error {
	if err := os.MkdirAll(api.DevicePluginPath, 0o750); err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	for _, folder := range []string{api.DevicePluginPath, p.broken} {
		if err := watcher.Add(folder); err != nil {
			return err
		}
	}
	// Whoever starts the kubelet waits for this line.
	log.Print("waiting for the kubelet")
	if listens(api.KubeletSocket) {
		if err := p.serve(); err != nil {
			return err
		}
	}
	for {
		select {
		case event := <-watcher.Events:
			if filepath.Dir(event.Name) == filepath.Clean(p.broken) {
				p.change()
			} else if event.Name == api.KubeletSocket && event.Has(fsnotify.Create) {
				if err := p.serve(); err != nil {
					return err
				}
			}
		case err := <-watcher.Errors:
			return err
		}
	}
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: chips RESOURCE COUNT FOLDER-OF-BROKEN-CHIPS")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(run(&plugin{resource: os.Args[1], count: count, broken: os.Args[3], changed: make(chan struct{})}))
}
