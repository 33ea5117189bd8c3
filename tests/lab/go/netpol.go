package main

import (
	"flag"
	"sync"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// runNetworkPolicies enforces NetworkPolicies with the controller of kube-router: chains of iptables and sets of
// ipset, renewed at each change of a pod, a namespace or a policy. Routes and Services are not its part here. The
// command of kube-router is not linked, because its router would bring in a BGP server.
func runNetworkPolicies() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	node := flag.String("node", "", "the name of this node")
	services := flag.String("services", "", "the range of the addresses of Services")
	klog.InitFlags(nil)
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.Fatal(err)
	}
	settings := options.NewKubeRouterConfig()
	settings.EnableIPv4 = true
	settings.HostnameOverride = *node
	settings.ClusterIPCIDRs = []string{*services}
	settings.IPTablesSyncPeriod = 30 * time.Second
	enforce(client, settings)
}

func enforce(client kubernetes.Interface, settings *options.KubeRouterConfig) {
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	tables, sets, err := netpol.NewIPTablesHandlers(settings)
	if err != nil {
		klog.Fatal(err)
	}
	controller, err := netpol.NewNetworkPolicyController(
		client, settings, pods, policies, namespaces, &sync.Mutex{}, tables, sets)
	if err != nil {
		klog.Fatal(err)
	}
	watch(pods, controller.PodEventHandler)
	watch(namespaces, controller.NamespaceEventHandler)
	watch(policies, controller.NetworkPolicyEventHandler)
	never := make(chan struct{})
	factory.Start(never)
	factory.WaitForCacheSync(never)
	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() {
		for range beats { //nolint:revive // the channel must be read
		}
	}()
	var running sync.WaitGroup
	running.Add(1)
	controller.Run(beats, never, &running)
}

func watch(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) {
	if _, err := informer.AddEventHandler(handler); err != nil {
		klog.Fatal(err)
	}
}
