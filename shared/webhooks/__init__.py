"""Webhooks: events, the endpoints that receive them, deliveries and manual retries.

events         which change has an event, and what the event says
endpoints/     the receivers of events, and what can be done with one
deliveries/    an event on its way to one endpoint, and what a person can do with it
queues         which queue the wake-ups of a delivery go to
health         when an endpoint is slow, hanging, busy, failing or gone, from the outcomes of its attempts
replays        manual retries of all failed deliveries of an endpoint
signing        signing secrets and signatures
urls           which URLs and addresses a receiver may have
http_client    sends one webhook to an untrusted receiver
failures, delivery_log, statistics    what people see of the deliveries of an endpoint
"""
