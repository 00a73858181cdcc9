"""The totals at the end of a run: the store against the ledgers of services and callers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from homing.domain.delivery import Attempt, Content, Delivery
from homing.domain.writes import KEPT_PAYLOAD
from homing.engine.intake.request_checks import at_ms
from tests.simulation.simulator.process_checks import INTERRUPTING, check_processes
from tests.simulation.simulator.route_kinds import ROUTE_KINDS, STAGES
from tests.simulation.simulator.service import NO_ADDRESS, Acceptance

if TYPE_CHECKING:
    from tests.simulation.simulator.world import World

Blame = Callable[[str, str, str], None]


class Totals(Struct):
    """What it came to."""

    duplicates: int = 0
    unexplained: int = 0
    lost: int = 0


def check_ledgers(world: World) -> Totals:
    totals = Totals()
    _accepted(world, totals)
    for delivery in (*world.disk.deliveries.values(), *world.disk.removed.values()):
        _judge(world, delivery, totals)
    for delivery in world.disk.deliveries.values():
        _earlier_payloads(world, delivery)
    check_processes(world)
    if world.sqlite is not None:
        world.sqlite.check_all()
    return totals


def _accepted(world: World, totals: Totals) -> None:
    """Whatever a caller was told is found, by id and by key (I1, I2, I5)."""
    disk, breach = world.disk, world.findings.breach
    for ask in world.clients.asks:
        if ask.told_id is None:
            continue
        if ask.told_id not in disk.deliveries and ask.told_id not in disk.removed:
            totals.lost += 1
            breach("I1", ask.told_id, "told, and not found by id")
        if ask.request.key is not None:
            name = ask.request.source, ask.request.key
            key = disk.keys.get(name)
            found = None if key is None else key.delivery_id
            if found != world.keys.owner.get(name) or ask.told_id not in world.keys.owners[name]:
                totals.lost += 1
                breach("I1", ask.told_id, f"told, and by its key {found} is found")
        if ask.made_it and (send_at_ms := at_ms("send_at", ask.request.send_at)) is not None:
            _not_early(world, ask.told_id, send_at_ms)
    for (source, text), key in disk.keys.items():
        if key.delivery_id not in disk.deliveries and key.delivery_id not in disk.removed:
            breach("I2", text, f"a key of {source} with no delivery")


def _earlier_payloads(world: World, delivery: Delivery) -> None:
    """Each payload that was amended is kept under its number, until retention empties all (I5)."""
    content = world.disk.contents.get(delivery.id, Content())
    if content == Content():
        return
    for number in range(1, delivery.payload_no):
        if f"{KEPT_PAYLOAD}{number}" not in content.results:
            world.findings.breach("I5", delivery.id, f"its payload {number} is not kept")


def _not_early(world: World, delivery_id: str, send_at_ms: int) -> None:
    """Never early (I13); a wall clock set back after the claim is no fault of anybody's."""
    started_ms = world.sends.first_start_ms.get(delivery_id, send_at_ms)
    if started_ms < send_at_ms and not world.options.has("clock"):
        world.findings.breach("I13", delivery_id, "tried before its time")


def _judge(world: World, delivery: Delivery, totals: Totals) -> None:
    disk, breach = world.disk, world.findings.breach
    gone = delivery.id in disk.removed
    ledger = {} if gone else disk.attempts.get(delivery.id, {})
    attempts = [row.attempt for row in ledger.values()]
    if not gone:
        if delivery.id not in disk.contents:
            breach("I2", delivery.id, "stored without its content")
        _attempts(world, delivery, attempts)
        _alerts(world, delivery)
    service = world.services.get(delivery.route)
    entries = service.ledger.get(delivery.id, []) if service is not None else []
    if _sends(delivery):
        _sent(breach, delivery, entries)
        _duplicates(world, delivery, attempts, entries, totals)
    elif delivery.state == "delivered" and not delivery.fanned_out:
        for stage in STAGES.get(delivery.route, ("handle",)):
            if stage != "notify" and not world.handler_runs.done[delivery.id, stage]:
                breach("I8", delivery.id, f"delivered, and {stage} never ended")


def _sends(delivery: Delivery) -> bool:
    kind = ROUTE_KINDS[delivery.route].carries
    return kind in ("mail", "job") or delivery.queue == "digest/mail"


def _acceptances(entries: list[Acceptance]) -> Counter[str]:
    return Counter(address for entry in entries for address in entry.recipients)


def _sent(breach: Blame, delivery: Delivery, entries: list[Acceptance]) -> None:
    """Delivered means accepted, dead means not accepted, for each recipient (I7, I8)."""
    has_it = _acceptances(entries)
    outcomes: dict[str, str] = {r.address: r.outcome for r in delivery.recipients}
    outcomes = outcomes or {NO_ADDRESS[0]: ""}
    for address, outcome in outcomes.items():
        if delivery.state == "delivered":
            if outcome == "refused":
                breach("I8", delivery.id, f"delivered, and {address} was refused")
            elif not has_it[address]:
                breach("I8", delivery.id, f"delivered, and {address} has nothing")
        elif outcome == "accepted" and not has_it[address]:
            breach("I8", delivery.id, f"{address} is called accepted and has nothing")
        if outcome == "refused" and has_it[address] and not any(e.is_zombie for e in entries):
            breach("I7", delivery.id, f"{address} is called refused, and has it")
        dead = delivery.state == "failed" and delivery.failed_because != "uncertain"
        if dead and outcome != "accepted" and has_it[address]:
            because = delivery.failed_because
            breach("I7", delivery.id, f"{because}, and {address} has it")


def _duplicates(
    world: World,
    delivery: Delivery,
    attempts: list[Attempt],
    entries: list[Acceptance],
    totals: Totals,
) -> None:
    """Each acceptance beyond the first lies in a window, and is flagged (I9, I10)."""
    more = sum(times - 1 for times in _acceptances(entries).values())
    if not more:
        return
    totals.duplicates += more
    if delivery.id in world.disk.removed:
        return  # its history is gone with it, as its route wants
    worst = max(_acceptances(entries).values()) - 1
    late = sum(
        key.startswith(f"{delivery.id}/") for key in world.disk.facts.get("late_outcome", {})
    )
    windows = sum(attempt.window is not None for attempt in attempts)
    by_zombie = sum(entry.is_zombie for entry in entries)
    explained = worst <= windows + late and (delivery.maybe_duplicate or late or by_zombie)
    if not explained:
        totals.unexplained += more
        text = f"{worst + 1} acceptances, {windows} windows, {late} late outcomes"
        world.findings.breach("I10", delivery.id, f"{text}, flagged {delivery.maybe_duplicate}")
    route_kind = ROUTE_KINDS[delivery.route]
    waived = any(cycle.failed_because == "uncertain" for cycle in delivery.failure_history)
    # How long a service folds tokens is measured by wall clocks, which may disagree.
    misjudged = route_kind.token_window_s and world.options.has("clock")
    if route_kind.on_unknown == "hold" and worst > by_zombie and not waived and not misjudged:
        world.findings.breach("I9", delivery.id, "sent again in doubt, on a route that holds")


def _attempts(world: World, delivery: Delivery, attempts: list[Attempt]) -> None:
    """The ledger of attempts is whole, true to the budget, and explains every send (I16)."""
    breach, route_kind = world.findings.breach, ROUTE_KINDS[delivery.route]
    if sorted(attempt.number for attempt in attempts) != list(
        range(1, delivery.attempts_ended + 1)
    ):
        breach("I16", delivery.id, f"ledger of {len(attempts)}, counted {delivery.attempts_ended}")
    spent = Counter((a.cycle, a.stage) for a in attempts if a.counted)
    if any(number > route_kind.max_attempts for number in spent.values()):
        breach("I16", delivery.id, f"{max(spent.values())} attempts of {route_kind.max_attempts}")
    if delivery.state == "failed" and delivery.failed_because == "exhausted":
        used = spent[delivery.cycle, delivery.stage]
        if used < route_kind.max_attempts and not delivery.fanned_out:
            breach("I16", delivery.id, f"exhausted after {used} of {route_kind.max_attempts}")
    commits = world.sends.commits_of[delivery.id]
    if delivery.is_terminal and commits > len(attempts):
        breach("I10", delivery.id, f"{commits} sends, {len(attempts)} attempts in the ledger")
    interrupted = sum(
        # A stop that cannot wait leaves marked sends in doubt, and nothing else.
        attempt.status == "interrupted" and not (world.stopped_short and attempt.maybe_sent)
        for attempt in attempts
    )
    if interrupted and not world.options.has(*INTERRUPTING, "clock"):
        breach("I15", delivery.id, f"{interrupted} interruptions, and nobody was interrupted")
    faults = [a for a in attempts if a.status == "route_fault" and a.counted]
    if faults and route_kind.on_route_fault == "pause":
        breach("I19", delivery.id, "a fault of the route was counted")


def _alerts(world: World, delivery: Delivery) -> None:
    """Each death is told at least once (I20)."""
    deaths = world.writes.deaths[delivery.id]
    given = world.notice_log.notices.get(delivery.id, Counter())["alert"]
    if deaths and not given:
        world.findings.breach("I20", delivery.id, f"died {deaths} times, and nobody was told")
    if delivery.notices_due:
        world.findings.breach("I20", delivery.id, f"still owes {','.join(delivery.notices_due)}")
