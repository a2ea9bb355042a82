// Renders a Helm chart as `helm template` does, and decodes each object strictly into the types of
// the Kubernetes API: an unknown or misplaced field is an error. Prints the objects as JSON lines.
//
//	chart DIRECTORY RELEASE < values.yaml
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

func main() {
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(directory, release string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	values, err := chartutil.ReadValues(input)
	if err != nil {
		return err
	}
	for _, message := range lint.AllWithKubeVersion(directory, values, "default", kubernetes()).Messages {
		if message.Severity > 1 { // not the wish for an icon
			return fmt.Errorf("lint: %v", message)
		}
	}
	rendered, err := render(directory, release, values)
	if err != nil {
		return err
	}
	types := runtime.NewScheme()
	if err := scheme.AddToScheme(types); err != nil {
		return err
	}
	if err := monitoring.AddToScheme(types); err != nil {
		return err
	}
	options := serializer.SerializerOptions{Yaml: true, Strict: true}
	decoder := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, types, types, options)
	for _, name := range sorted(rendered) {
		if strings.HasSuffix(name, ".txt") {
			continue
		}
		manifests := releaseutil.SplitManifests(rendered[name])
		for _, key := range sorted(manifests) {
			object, _, err := decoder.Decode([]byte(manifests[key]), nil, nil)
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", name, err, manifests[key])
			}
			line, err := json.Marshal(object)
			if err != nil {
				return err
			}
			fmt.Println(string(line))
		}
	}
	return nil
}

func render(directory, release string, values chartutil.Values) (map[string]string, error) {
	chart, err := loader.Load(directory)
	if err != nil {
		return nil, err
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *kubernetes()
	options := chartutil.ReleaseOptions{Name: release, Namespace: "default", IsInstall: true}
	merged, err := chartutil.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, merged)
}

func kubernetes() *chartutil.KubeVersion {
	return &chartutil.KubeVersion{Version: "v1.31.0", Major: "1", Minor: "31"}
}

func sorted(of map[string]string) []string {
	names := make([]string, 0, len(of))
	for name := range of {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
