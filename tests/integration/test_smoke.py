def test_a_change_reaches_the_receiver(stage):
    a = stage.call("POST", "/v1/customers", {"phone": "+15005550006"})
    assert a.status == 201, a.body
    assert stage.fan_out()
    e = stage.call("GET", "/v1/events")
    assert e.json["data"][0]["type"] == "customer.created"
