package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"os"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// How every client connects.
type connection []kgo.Opt

func (connection connection) with(options ...kgo.Opt) []kgo.Opt {
	return slices.Concat(connection, options)
}

// Reads a JSON object with settings of librdkafka. Without a file, there is no security.
func connectionTo(bootstrap string, file []string) connection {
	options := connection{kgo.SeedBrokers(bootstrap)}
	if len(file) == 0 {
		return options
	}
	settings := map[string]string{}
	check(json.Unmarshal(read(file[0]), &settings), "settings")
	options = append(options, kgo.DialTLSConfig(tlsOf(settings)))
	if mechanism := mechanismOf(settings); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options
}

func tlsOf(settings map[string]string) *tls.Config {
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	expect(config.RootCAs.AppendCertsFromPEM(read(settings["ssl.ca.location"])), "no CA")
	if path := settings["ssl.certificate.location"]; path != "" {
		own, err := tls.LoadX509KeyPair(path, settings["ssl.key.location"])
		check(err, "certificate")
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func mechanismOf(settings map[string]string) sasl.Mechanism {
	login := scram.Auth{User: settings["sasl.username"], Pass: settings["sasl.password"]}
	switch name := settings["sasl.mechanism"]; name {
	case "":
		return nil
	case "SCRAM-SHA-256":
		return login.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return login.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Oauth(func(context.Context) (oauth.Auth, error) {
			return oauth.Auth{Token: string(read(settings["token.file"]))}, nil
		})
	default:
		expect(false, "the mechanism %s", name)
		return nil
	}
}

func read(path string) []byte {
	content, err := os.ReadFile(path)
	check(err, "read")
	return content
}
