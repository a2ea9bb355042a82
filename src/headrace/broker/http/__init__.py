"""The broker's HTTP port: metrics, probes and version. Imported only if the port is on."""
