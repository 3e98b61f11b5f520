"""Webhook endpoints: the receivers of events.

resource  the type, the inputs and the rows
commands  create, update, disable, delete an endpoint, rotate its secret. A test event is a delivery: `test` in
          `shared/webhooks/deliveries/commands.py`
"""
