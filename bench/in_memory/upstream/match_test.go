// Package upstream measures FindMatchingVolume of Kubernetes on the volumes that bench/match_volumes.py makes, too.
package upstream

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
)

const (
	class    = "fast"
	zone     = "topology.kubernetes.io/zone"
	hostname = "kubernetes.io/hostname"
	queries  = 64
)

func size(i int) int { return 1 + i*7919%499 }

func zoneOf(i int) string { return fmt.Sprintf("zone-%d", i%8) }

func nodeOf(i int) string { return fmt.Sprintf("node-%06d", i) }

func term(key, value string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}},
	}}
}

func volumes(count int, layout string) []*v1.PersistentVolume {
	mode := v1.PersistentVolumeFilesystem
	made := make([]*v1.PersistentVolume, 0, count)
	for i := range count {
		reach := term(zone, zoneOf(i))
		if layout == "local" {
			reach = term(hostname, nodeOf(i))
		}
		tier := "silver"
		if i%20 == 0 {
			tier = "gold"
		}
		pv := &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%06d", i), Labels: map[string]string{"tier": tier}},
			Spec: v1.PersistentVolumeSpec{
				Capacity:         v1.ResourceList{v1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", size(i)))},
				AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
				StorageClassName: class,
				VolumeMode:       &mode,
				NodeAffinity: &v1.VolumeNodeAffinity{
					Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{reach}},
				},
			},
			Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		}
		if i%5 >= 2 {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: fmt.Sprintf("taken-%06d", i), UID: "taken"}
			pv.Status.Phase = v1.VolumeBound
		}
		made = append(made, pv)
	}
	return made
}

// query returns the j-th claim and the node it is to be matched on.
func query(j, count int, layout string, selector bool) (*v1.PersistentVolumeClaim, *v1.Node) {
	at := j * 1580 % count / 20 * 20
	request := 1 + j*37%400
	labels := map[string]string{zone: zoneOf(j), hostname: nodeOf(at)}
	if layout == "local" {
		request = size(at)
	}
	storageClass := class
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("data-%d", j), UID: "data"},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName: &storageClass,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceStorage: resource.MustParse(fmt.Sprintf("%dGi", request)),
			}},
		},
	}
	if selector {
		claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
	return claim, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(at), Labels: labels}}
}

func sizes() []int {
	found := []int{}
	for _, text := range strings.Split(os.Getenv("VOLUMES"), ",") {
		if count, err := strconv.Atoi(text); err == nil {
			found = append(found, count)
		}
	}
	return found
}

func each(visit func(name string, find func(j int) string)) {
	for _, count := range sizes() {
		for _, layout := range []string{"zonal", "local"} {
			made := volumes(count, layout)
			for _, asked := range []string{"nowhere", "node", "node+selector"} {
				find := func(j int) string {
					claim, node := query(j%queries, count, layout, asked == "node+selector")
					if asked == "nowhere" {
						node = nil
					}
					found, err := volume.FindMatchingVolume(claim, made, node, nil, node != nil, true)
					if err != nil {
						return err.Error()
					}
					if found == nil {
						return "-"
					}
					return found.Name
				}
				visit(fmt.Sprintf("%s/%s/%d", layout, asked, count), find)
			}
		}
	}
}

// TestAnswers prints what is found, to be compared.
func TestAnswers(t *testing.T) {
	each(func(name string, find func(j int) string) {
		found := make([]string, queries)
		for j := range queries {
			found[j] = find(j)
		}
		fmt.Println("answers", name, strings.Join(found, ","))
	})
}

func BenchmarkFindMatchingVolume(b *testing.B) {
	each(func(name string, find func(j int) string) {
		b.Run(name, func(b *testing.B) {
			for j := 0; b.Loop(); j++ {
				find(j)
			}
		})
	})
}
