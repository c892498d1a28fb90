// Reads Kubernetes manifests from standard input and says what is wrong with them: fields that the API does not have,
// selectors that select nothing, ports, volumes and targets that are not there, and a pod that is killed before it has left.
//
//	helm template throng deploy/helm/throng | go run .
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

type manifests struct {
	deployments []appsv1.Deployment
	sets        []appsv1.StatefulSet
	services    []corev1.Service
	configs     []corev1.ConfigMap
	budgets     []policyv1.PodDisruptionBudget
	scalers     []autoscalingv2.HorizontalPodAutoscaler
	ingresses   []networkingv1.Ingress
	faults      []string
}

func (m *manifests) fault(format string, values ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, values...))
}

// Takes one document; fields that the type does not have are faults.
func (m *manifests) read(document []byte) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		m.fault("not YAML: %v", err)
		return
	}
	var err error
	switch kind.APIVersion + " " + kind.Kind {
	case "apps/v1 Deployment":
		err = keep(document, &m.deployments)
	case "apps/v1 StatefulSet":
		err = keep(document, &m.sets)
	case "v1 Service":
		err = keep(document, &m.services)
	case "v1 ConfigMap":
		err = keep(document, &m.configs)
	case "policy/v1 PodDisruptionBudget":
		err = keep(document, &m.budgets)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		err = keep(document, &m.scalers)
	case "networking.k8s.io/v1 Ingress":
		err = keep(document, &m.ingresses)
	case "monitoring.coreos.com/v1 ServiceMonitor", " ":
	default:
		err = errors.New("a kind that this check does not know")
	}
	if err != nil {
		m.fault("%s: %v", kind.Kind, err)
	}
}

func keep[T any](document []byte, list *[]T) error {
	var one T
	err := yaml.UnmarshalStrict(document, &one)
	*list = append(*list, one)
	return err
}

func (m *manifests) check() {
	if len(m.deployments)+len(m.sets) != 1 {
		m.fault("%d deployments and %d sets", len(m.deployments), len(m.sets))
		return
	}
	kind, deployment := "Deployment", appsv1.Deployment{}
	if len(m.sets) == 1 {
		set := m.sets[0]
		kind, deployment.ObjectMeta = "StatefulSet", set.ObjectMeta
		deployment.Spec = appsv1.DeploymentSpec{Replicas: set.Spec.Replicas, Selector: set.Spec.Selector, Template: set.Spec.Template}
		if !slices.ContainsFunc(m.services, func(service corev1.Service) bool { return service.Name == set.Spec.ServiceName }) {
			m.fault("no service %s", set.Spec.ServiceName)
		}
		// Each becomes a volume of its pod.
		for _, claim := range set.Spec.VolumeClaimTemplates {
			volume := corev1.Volume{Name: claim.Name}
			deployment.Spec.Template.Spec.Volumes = append(deployment.Spec.Template.Spec.Volumes, volume)
		}
	} else {
		deployment = m.deployments[0]
	}
	pod := deployment.Spec.Template
	owns := func(what string, selector map[string]string) {
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) {
			m.fault("%s selects no pod", what)
		}
	}
	owns("the deployment", deployment.Spec.Selector.MatchLabels)
	for _, budget := range m.budgets {
		owns("the budget", budget.Spec.Selector.MatchLabels)
	}
	ports := map[string]bool{}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			ports[port.Name] = true
		}
		m.container(container, pod.Spec)
	}
	services := map[string]map[string]bool{}
	for _, service := range m.services {
		owns("service "+service.Name, service.Spec.Selector)
		services[service.Name] = map[string]bool{}
		for _, port := range service.Spec.Ports {
			services[service.Name][port.Name] = true
			if !ports[port.TargetPort.String()] {
				m.fault("service %s: no port %s", service.Name, port.TargetPort.String())
			}
			if port.TargetPort.String() == "api" && service.Spec.Type != corev1.ServiceTypeClusterIP {
				m.fault("service %s shows the server API outside", service.Name)
			}
		}
	}
	for _, volume := range pod.Spec.Volumes {
		// Others are somebody else's.
		if volume.Name == "config" && (len(m.configs) != 1 || m.configs[0].Name != volume.ConfigMap.Name) {
			m.fault("volume %s: no ConfigMap %s", volume.Name, volume.ConfigMap.Name)
		}
	}
	for _, scaler := range m.scalers {
		target := scaler.Spec.ScaleTargetRef
		if target.Kind != kind || target.Name != deployment.Name || deployment.Spec.Replicas != nil {
			m.fault("the scaler and the deployment do not agree")
		}
	}
	for _, ingress := range m.ingresses {
		for _, rule := range ingress.Spec.Rules {
			for _, path := range rule.HTTP.Paths {
				if to := path.Backend.Service; !services[to.Name][to.Port.Name] {
					m.fault("the ingress leads to no port")
				}
			}
		}
	}
}

func (m *manifests) container(container corev1.Container, pod corev1.PodSpec) {
	if container.ReadinessProbe == nil || container.LivenessProbe == nil || container.StartupProbe == nil {
		m.fault("a probe is missing")
	}
	if container.Lifecycle == nil || container.Lifecycle.PreStop == nil || container.Lifecycle.PreStop.Sleep == nil {
		m.fault("no preStop")
		return
	}
	var drain int64
	for _, variable := range container.Env {
		if variable.Name == "THRONG_DRAIN_TIMEOUT" {
			fmt.Sscanf(variable.Value, "%ds", &drain)
		}
	}
	leaving := container.Lifecycle.PreStop.Sleep.Seconds + drain
	if drain == 0 || *pod.TerminationGracePeriodSeconds <= leaving {
		m.fault("killed after %d s, but it leaves for %d s", *pod.TerminationGracePeriodSeconds, leaving)
	}
	volumes, mounts := map[string]bool{}, []string{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	for _, mount := range container.VolumeMounts {
		if !volumes[mount.Name] {
			m.fault("no volume %s", mount.Name)
		}
		mounts = append(mounts, mount.MountPath)
	}
	// Files and folders that options name have to be in a volume: there is nothing else to write to.
	for _, variable := range container.Env {
		inside := func(mount string) bool { return variable.Value == mount || strings.HasPrefix(variable.Value, mount+"/") }
		if strings.HasPrefix(variable.Value, "/") && !slices.ContainsFunc(mounts, inside) {
			m.fault("%s: %s is in no volume", variable.Name, variable.Value)
		}
	}
	security := container.SecurityContext
	if pod.SecurityContext.RunAsNonRoot == nil || security == nil || !*security.ReadOnlyRootFilesystem ||
		*security.AllowPrivilegeEscalation {
		m.fault("it has more rights than it needs")
	}
}

func main() {
	var all manifests
	documents := utilyaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count := 0
	for {
		document, err := documents.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			all.fault("%v", err)
			break
		}
		all.read(document)
		count++
	}
	all.check()
	for _, fault := range all.faults {
		fmt.Println(fault)
	}
	if len(all.faults) > 0 {
		os.Exit(1)
	}
	fmt.Println(count, "manifests hold")
}
