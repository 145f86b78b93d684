// Karpenter runs the controllers of Karpenter with its provider kwok, whose nodes are objects only.
//
// It differs from sigs.k8s.io/karpenter/kwok in one thing: it serves neither metrics nor health probes, which that
// program does on all interfaces of the machine. `karpenter crds` prints the definitions of its resources.
package main

import (
	"context"
	"os"

	"github.com/go-logr/zapr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/nodeoverlay"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// nowhere is the address that makes controller-runtime serve nothing.
const nowhere = "0"

func main() {
	if len(os.Args) > 1 && os.Args[1] == "crds" {
		for _, definition := range [][]byte{apis.NodePoolCRD, apis.NodeClaimCRD, apis.NodeOverlayCRD, kwokapis.KWOKNodeClassCRD} {
			os.Stdout.Write(definition)
		}
		return
	}
	if err := run(); err != nil {
		log.Log.Error(err, "Karpenter ended")
		os.Exit(1)
	}
}

func run() error {
	ctx := injection.WithOptionsOrDie(context.Background(), options.Injectables...)
	logger := zapr.NewLogger(logging.NewLogger(ctx, "controller"))
	log.SetLogger(logger)
	klog.SetLogger(logger)
	op, err := newOperator(ctx)
	if err != nil {
		return err
	}
	instanceTypes, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		return err
	}
	undecorated := kwok.NewCloudProvider(ctx, op.GetClient(), instanceTypes)
	provider := overlay.Decorate(undecorated, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), provider)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, provider, undecorated, cluster, op.InstanceTypeStore,
	)...).Start(ctx)
	return nil
}

// newOperator returns what operator.NewOperator does, without its servers and without leader election.
func newOperator(ctx context.Context) (*operator.Operator, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	config.QPS = float32(options.FromContext(ctx).KubeClientQPS)
	config.Burst = options.FromContext(ctx).KubeClientBurst
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Metrics:                server.Options{BindAddress: nowhere},
		HealthProbeBindAddress: nowhere,
		BaseContext: func() context.Context {
			return injection.WithOptionsOrDie(log.IntoContext(context.Background(), log.Log), options.Injectables...)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := index(ctx, mgr); err != nil {
		return nil, err
	}
	return &operator.Operator{
		Manager:             mgr,
		KubernetesInterface: kubernetes.NewForConfigOrDie(config),
		EventRecorder:       events.NewRecorder(mgr.GetEventRecorderFor("karpenter")), //nolint:staticcheck
		Clock:               clock.RealClock{},
		InstanceTypeStore:   nodeoverlay.NewInstanceTypeStore(),
	}, nil
}

type field struct {
	object client.Object
	name   string
	value  func(client.Object) string
}

// index sets up what Karpenter's controllers look up, as setupIndexers in pkg/operator/operator.go.
func index(ctx context.Context, mgr manager.Manager) error {
	fields := []field{
		{&corev1.Pod{}, "spec.nodeName", func(o client.Object) string { return o.(*corev1.Pod).Spec.NodeName }},
		{&corev1.Node{}, "spec.providerID", func(o client.Object) string { return o.(*corev1.Node).Spec.ProviderID }},
		{&storagev1.VolumeAttachment{}, "spec.nodeName", func(o client.Object) string {
			return o.(*storagev1.VolumeAttachment).Spec.NodeName
		}},
		{&v1.NodeClaim{}, "status.providerID", func(o client.Object) string { return o.(*v1.NodeClaim).Status.ProviderID }},
	}
	for _, each := range []struct {
		object client.Object
		prefix string
		class  func(client.Object) *v1.NodeClassReference
	}{
		{&v1.NodeClaim{}, "spec.nodeClassRef.", func(o client.Object) *v1.NodeClassReference {
			return o.(*v1.NodeClaim).Spec.NodeClassRef
		}},
		{&v1.NodePool{}, "spec.template.spec.nodeClassRef.", func(o client.Object) *v1.NodeClassReference {
			return o.(*v1.NodePool).Spec.Template.Spec.NodeClassRef
		}},
	} {
		class := each.class
		fields = append(fields,
			field{each.object, each.prefix + "group", func(o client.Object) string { return class(o).Group }},
			field{each.object, each.prefix + "kind", func(o client.Object) string { return class(o).Kind }},
			field{each.object, each.prefix + "name", func(o client.Object) string { return class(o).Name }},
		)
	}
	for _, each := range fields {
		value := each.value
		values := func(o client.Object) []string { return []string{value(o)} }
		if err := mgr.GetFieldIndexer().IndexField(ctx, each.object, each.name, values); err != nil {
			return err
		}
	}
	return nil
}
