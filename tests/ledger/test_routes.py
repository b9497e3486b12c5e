"""Which calls share a route, and which trajectories and groups get it."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from sqlalchemy import Connection, text

from ledger.codec import call_of, decode_call, decode_held, encode_call
from ledger.erasure.skeleton import skeleton_of
from ledger.groups.routes import route_named, route_of
from ledger.recording import record_calls
from tests.ledger.calls import a_call, a_policy, an_attribution, conversation, n_call, rows
from tests.ledger.continued import known, talk
from tests.ledger.searching import places_of
from tests.ledger.test_text import ANY_JSON, ANY_TEXT

USER = {"role": "user", "content": "q"}
ROUTES = "SELECT t.route, g.route, count(*) FROM trajectories AS t JOIN groups AS g ON g.id = t.group_id GROUP BY 1, 2"


def system(text: Any, role: str = "system") -> dict[str, Any]:
    return {"role": role, "content": text}


def route(*messages: Any, **changes: Any) -> str:
    return route_of(a_call(messages=list(messages), **changes))


@pytest.mark.parametrize(
    "other",
    [
        route(system("Be brief."), {"role": "user", "content": "another question"}),
        route(system([{"type": "text", "text": "Be brief."}]), USER),
        route(system("Be brief."), USER, {"role": "assistant", "content": "a"}, USER),
        route(system("Be brief."), USER, version=9, policy="other"),
    ],
    ids=["question", "parts", "more turns", "version"],
)
def test_the_task_is_no_part_of_the_route(other: str) -> None:
    assert other == route(system("Be brief."), USER)


@pytest.mark.parametrize(
    "other",
    [
        route(USER),
        route(system("Be long."), USER),
        route(USER, system("Be brief.")),
        route(system("Be brief."), USER, system("Be brief.")),
        route(system("Be brief."), USER, endpoint="/v1/responses"),
        route(system("Be brief."), USER, request={"tools": [{"name": "t"}]}),
        route(system("Be "), system("brief."), USER),
    ],
    ids=["no system", "other words", "role before", "twice", "endpoint", "tools", "split"],
)
def test_other_roles_words_tools_or_endpoints_are_another_route(other: str) -> None:
    assert other != route(system("Be brief."), USER)


def test_digits_in_the_systems_words_are_alike() -> None:
    """A prompt that says the date would be another route each day, and never have a baseline."""
    monday, tuesday = (
        route(system(f"Today is {day}, 9:0{day[-1]}."), USER) for day in ("2026-11-30", "2026-12-1")
    )
    assert monday == tuesday


def test_the_systems_words_may_stand_beside_the_messages() -> None:
    """As Anthropic's messages and OpenAI's responses have it."""
    for name in ("system", "instructions"):
        brief, long = (route(USER, request={name: text}) for text in ("Be brief.", "Be long."))
        assert len({brief, long, route(USER)}) == 3


def test_the_order_of_a_tools_keys_does_not_matter() -> None:
    one, other = {"name": "t", "strict": True}, {"strict": True, "name": "t"}
    assert route(USER, request={"tools": [one]}) == route(USER, request={"tools": [other]})


@given(ANY_JSON, ANY_TEXT)
def test_whatever_a_caller_sends_has_a_route(value: Any, odd: str) -> None:
    call = a_call(
        messages=[system(value), value, system(odd, role=odd)], request={"tools": value, "system": odd}
    )
    assert len(route_of(call)) == 32
    assert route_of(call) == route_of(decode_call(encode_call(call)))


def test_what_is_nested_deeper_than_python_goes_has_a_route() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert len(route(system(deep), request={"tools": deep})) == 32


def test_the_callers_name_makes_the_route(connection: Connection) -> None:
    a_policy(connection)
    named, support = an_attribution(route="support ✓", group_key="g"), route_named("support ✓")
    record_calls(connection, [n_call(2, attribution=named), a_call(group="g")])
    assert sorted(rows(connection, ROUTES), key=str) == sorted(
        [(support, support, 2), (route_of(a_call()), support, 1)], key=str
    )
    assert route(USER, attribution=an_attribution(route="x" * 600)) == route_named("x" * 600)


def test_a_routes_name_is_stored_nowhere_and_its_digest_is_computed_as_documented(
    connection: Connection,
) -> None:
    """It may name a person, and a baseline outlives every erasure."""
    a_policy(connection)
    record_calls(connection, [a_call(attribution=an_attribution(route="ann@example.org"))])
    connection.execute(
        text(
            "INSERT INTO route_baselines (policy_id, route, mean, variance, num_samples, step_id)"
            " SELECT policy_id, route, 0, 0, 1, id FROM trajectories"
        )
    )
    assert places_of(connection, "ann@example.org") == []
    [documented] = re.findall(r"`(left\(encode.*?, 32\))`", Path("docs/http.md").read_text("utf-8"))
    asked = documented.replace("\\|", "|").replace("support", "ann@example.org")
    assert rows(connection, f"SELECT route = {asked} FROM trajectories") == [(True,)]


def test_a_trajectory_has_the_route_of_the_call_that_began_it(connection: Connection) -> None:
    """Later turns may say other things; a turn that was recorded before the first one does not decide."""
    a_policy(connection)
    first, second = conversation(2)
    second = replace(second, messages=[system("later"), *(second.messages or [])])
    record_calls(connection, [first, second])
    assert rows(connection, "SELECT route FROM trajectories") == [(route_of(first),)]


def test_a_call_that_was_spooled_before_there_were_routes_can_be_read() -> None:
    call = a_call(attribution=an_attribution(group_key="g"))
    held = decode_held(encode_call(call))
    del held["attribution"]["route"]
    assert call_of(held) == call


def test_what_was_erased_as_it_came_has_no_route(connection: Connection) -> None:
    a_policy(connection)
    record_calls(connection, [a_call(attribution=an_attribution(route="support"), is_erased=True)])
    assert rows(connection, "SELECT route FROM trajectories") == [(None,)]


def test_the_first_turn_decides_though_a_later_one_was_recorded_before_it(connection: Connection) -> None:
    a_policy(connection)
    first, *_, last = talk(3)
    first = replace(first, messages=[system("Be brief."), *(first.messages or [])])
    placed = known(last, first, messages=[system("Be long."), *(last.messages or [])])
    record_calls(connection, [placed])
    assert rows(connection, "SELECT route FROM trajectories") == [(route_of(placed),)]
    record_calls(connection, [first])
    assert rows(connection, "SELECT route FROM trajectories") == [(route_of(first),)]


def test_a_skeleton_has_no_name_of_a_route() -> None:
    """A caller chose it."""
    assert skeleton_of(a_call(attribution=an_attribution(route="Ann's"))).attribution.route is None
