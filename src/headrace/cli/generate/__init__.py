"""`headrace generate`: dashboards for Grafana, rules and scrape settings for Prometheus."""
