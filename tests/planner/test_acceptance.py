"""What is noticed of a spec that changed, and what is not."""

from slipway.planner.acceptance import template_hash
from slipway.planner.actions import CreatePods

from .build import World, actions_of, spec


def test_a_default_is_no_change_so_that_a_newer_slipway_knows_older_jobs() -> None:
    given = {"hosts": 2}
    spelled_out = given | {"slices": 1, "suspend": False, "volumes": [], "accelerator": None}
    assert template_hash(spec(**given)) == template_hash(spec(**spelled_out))


def test_a_hidden_change_of_the_template_keeps_the_next_attempt_back() -> None:  # B-60
    world = World(podTemplate={"spec": {"dnsPolicy": "Default"}}).run()
    world.fields["podTemplate"] = {"spec": {"dnsPolicy": "None"}}
    world.settle()
    assert world.status.phase == "Running"
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "SpecChanged")
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.phase == "Restarting"
    assert not actions_of(world.plan(), CreatePods)
    running = world.condition("Running")
    assert running is not None
    assert running.reason == "SpecChanged"
    world.fields["podTemplate"] = {"spec": {"dnsPolicy": "Default"}}
    world.settle()
    assert world.status.attempt == 1
