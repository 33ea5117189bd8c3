// Command kappa-lab is every server of the local cluster in one executable.
//
// One executable links once and shares its compiled packages, so a cold build takes a third less time
// than one executable a component. The component is chosen by the name the file is run under (symbolic
// links are made by the lab), or else by the first argument. kubectl is a program of its own: it runs
// hundreds of times in the tests, and would initialize the packages of all servers each time.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func run(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

// The commands are built only when chosen: building one registers flags and metrics of the whole process.
func components() map[string]func() {
	return map[string]func(){
		"etcd":                    func() { etcdmain.Main(os.Args) },
		"coredns":                 runCoreDNS,
		"kappa-storage":           runStorage,
		"kappa-network-policies":  runNetworkPolicies,
		"kube-apiserver":          func() { run(apiserver.NewAPIServerCommand()) },
		"kube-controller-manager": func() { run(controllermanager.NewControllerManagerCommand()) },
		"kube-scheduler":          func() { run(scheduler.NewSchedulerCommand()) },
		"kube-proxy":              func() { run(proxy.NewProxyCommand()) },
		"kubelet":                 func() { run(kubelet.NewKubeletCommand(context.Background())) },
	}
}

func runCoreDNS() {
	// The order of execution of the plugins, as in CoreDNS's own plugin.cfg.
	dnsserver.Directives = []string{"bind", "health", "ready", "errors", "cache", "kubernetes"}
	coremain.Run()
}

func main() {
	known := components()
	if start, found := known[filepath.Base(os.Args[0])]; found {
		start()
		return
	}
	if len(os.Args) > 1 {
		if start, found := known[os.Args[1]]; found {
			os.Args = os.Args[1:]
			start()
			return
		}
	}
	fmt.Fprintln(os.Stderr, "usage: kappa-lab COMPONENT [arguments]")
	os.Exit(2)
}
