// Ceiling creates and deletes given pods as fast as one client can: no cache, no status, no decisions.
//
// Orders come as JSON, one a line, on standard input; each is answered by one line on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"

	"golang.org/x/net/http2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

const workers = 64

// batch is what one attempt of one job consists of.
type batch struct {
	Selector string          `json:"selector"`
	Service  *corev1.Service `json:"service"`
	Pods     []*corev1.Pod   `json:"pods"`
}

type order struct {
	Op   string   `json:"op"`
	File string   `json:"file"`
	Keys []string `json:"keys"`
	// For "replace": the batch that takes the place of Keys[0].
	With string `json:"with"`
	// Pods that have ended and stay, and pods whose machine is gone.
	Spared []string `json:"spared"`
	Gone   []string `json:"gone"`
	Grace  int64    `json:"grace"`
}

type ceiling struct {
	client    kubernetes.Interface
	namespace string
	batches   map[string]*batch
	watches   map[string]watch.Interface
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	namespace := flag.String("namespace", "", "where the pods are")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	check(err)
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	client, err := kubernetes.NewForConfig(config)
	check(err)
	c := &ceiling{client, *namespace, map[string]*batch{}, map[string]watch.Interface{}}
	// A connection that is open, as every controller has one.
	_, err = client.Discovery().ServerVersion()
	check(err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var o order
		check(json.Unmarshal(lines.Bytes(), &o))
		check(c.obey(o))
		fmt.Printf("{\"done\":%q}\n", o.Op)
	}
}

func (c *ceiling) obey(o order) error {
	switch o.Op {
	case "load":
		return c.load(o.File)
	case "create":
		return c.create(o.Keys)
	case "arm":
		_, err := c.arm(o.Keys[0])
		return err
	case "replace":
		return c.replace(o)
	case "delete":
		return c.delete(o.Keys)
	}
	return fmt.Errorf("unknown order %q", o.Op)
}

func (c *ceiling) load(file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, &c.batches)
}

func (c *ceiling) create(keys []string) error {
	var pods []*corev1.Pod
	for _, key := range keys {
		b := c.batches[key]
		if b.Service != nil {
			_, err := c.client.CoreV1().Services(c.namespace).Create(context.Background(), b.Service, metav1.CreateOptions{})
			if err != nil {
				return err
			}
		}
		pods = append(pods, b.Pods...)
	}
	return each(pods, func(pod *corev1.Pod) error {
		_, err := c.client.CoreV1().Pods(c.namespace).Create(context.Background(), pod, metav1.CreateOptions{})
		return err
	})
}

// arm lists a batch and opens the watch that tells when its pods are gone; the first time before the clock starts.
func (c *ceiling) arm(key string) ([]corev1.Pod, error) {
	selector := metav1.ListOptions{LabelSelector: c.batches[key].Selector}
	found, err := c.client.CoreV1().Pods(c.namespace).List(context.Background(), selector)
	if err != nil {
		return nil, err
	}
	selector.ResourceVersion = found.ResourceVersion
	c.watches[key], err = c.client.CoreV1().Pods(c.namespace).Watch(context.Background(), selector)
	return found.Items, err
}

func (c *ceiling) replace(o order) error {
	key := o.Keys[0]
	going := map[string]bool{}
	for _, pod := range c.batches[key].Pods {
		going[pod.Name] = true
	}
	for _, name := range o.Spared {
		delete(going, name)
	}
	gone := make(chan error, 1)
	go func() { gone <- c.awaitEnd(key, going) }()
	if err := c.end(going, o.Gone, o.Grace); err != nil {
		return err
	}
	if err := <-gone; err != nil {
		return err
	}
	return c.create([]string{o.With})
}

// awaitEnd returns when none of the named pods of a batch exists any more. A watch that ends is taken up again.
func (c *ceiling) awaitEnd(key string, going map[string]bool) error {
	left := map[string]bool{}
	for name := range going {
		left[name] = true
	}
	for {
		for event := range c.watches[key].ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Deleted {
				delete(left, pod.Name)
			} else if event.Type == watch.Error {
				fmt.Fprintln(os.Stderr, "watch:", event.Object)
			}
			if len(left) == 0 {
				c.watches[key].Stop()
				return nil
			}
		}
		fmt.Fprintln(os.Stderr, "the watch ended while there were", len(left), "pods")
		found, err := c.arm(key)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, pod := range found {
			there[pod.Name] = going[pod.Name]
		}
		for name := range left {
			if !there[name] {
				delete(left, name)
			}
		}
		if len(left) == 0 {
			return nil
		}
	}
}

func (c *ceiling) end(going map[string]bool, machineGone []string, grace int64) error {
	forced := map[string]bool{}
	for _, name := range machineGone {
		forced[name] = true
	}
	var names []string
	for name := range going {
		names = append(names, name)
	}
	zero := int64(0)
	return each(names, func(name string) error {
		options := metav1.DeleteOptions{GracePeriodSeconds: &grace}
		if forced[name] {
			options.GracePeriodSeconds = &zero
		}
		return c.client.CoreV1().Pods(c.namespace).Delete(context.Background(), name, options)
	})
}

func (c *ceiling) delete(keys []string) error {
	for _, key := range keys {
		selector := metav1.ListOptions{LabelSelector: c.batches[key].Selector}
		pods := c.client.CoreV1().Pods(c.namespace)
		err := pods.DeleteCollection(context.Background(), metav1.DeleteOptions{}, selector)
		// What the API server has not deleted within its minute for a request is asked for again.
		for endedAfterMinute(err) {
			err = pods.DeleteCollection(context.Background(), metav1.DeleteOptions{}, selector)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// endedAfterMinute is whether the API server gave the request up, by an answer or by breaking its stream.
func endedAfterMinute(err error) bool {
	var broken http2.StreamError
	return apierrors.IsTimeout(err) || errors.As(err, &broken)
}

// each does the work for all items, many at a time, and returns the first error.
func each[T any](items []T, work func(T) error) error {
	queue := make(chan T)
	failures := make(chan error, workers)
	var running sync.WaitGroup
	for range workers {
		running.Add(1)
		go func() {
			defer running.Done()
			var first error
			for item := range queue {
				if err := work(item); err != nil && first == nil {
					first = err
				}
			}
			if first != nil {
				failures <- first
			}
		}()
	}
	for _, item := range items {
		queue <- item
	}
	close(queue)
	running.Wait()
	close(failures)
	return <-failures
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
