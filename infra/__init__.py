"""Infrastructure: what is deployed, how it runs on one machine, and the operator's tools."""
