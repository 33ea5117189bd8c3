package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v10/controller"
)

// directories gives each claim a directory of its own under root, writable by any user, so that pods which
// do not run as root can write: the provisioner inside kube-controller-manager makes them for root only.
type directories struct {
	root string
}

func (d directories) Provision(
	_ context.Context, options controller.ProvisionOptions,
) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	path := filepath.Join(d.root, fmt.Sprintf("%s_%s_%s", options.PVName, options.PVC.Namespace, options.PVC.Name))
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	// MkdirAll is subject to the umask.
	if err := os.Chmod(path, 0o777); err != nil {
		return nil, controller.ProvisioningNoChange, err
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: *options.StorageClass.ReclaimPolicy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			MountOptions:                  options.StorageClass.MountOptions,
			Capacity: v1.ResourceList{
				v1.ResourceStorage: options.PVC.Spec.Resources.Requests[v1.ResourceStorage],
			},
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}},
		},
	}, controller.ProvisioningFinished, nil
}

func (d directories) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	path := filepath.Clean(volume.Spec.HostPath.Path)
	if filepath.Dir(path) != filepath.Clean(d.root) {
		return fmt.Errorf("%s is not a volume under %s", path, d.root)
	}
	return os.RemoveAll(path)
}

// runStorage serves the claims of one storage provisioner name until it is stopped.
func runStorage() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	root := flag.String("root", "", "directory that holds the volumes")
	name := flag.String("name", "kappa-platform.io/directory", "the StorageClass's provisioner")
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		klog.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		klog.Fatal(err)
	}
	ctx := context.Background()
	controller.NewProvisionController(
		klog.FromContext(ctx), client, *name, directories{root: *root}, controller.LeaderElection(false),
	).Run(ctx)
}
