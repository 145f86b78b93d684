"""Flags and settings fit together."""

from dataclasses import fields
from datetime import timedelta

import pytest

from binder.model.decision import Mode
from prebinder import cli
from prebinder.command_line.flags import FLAGS, settings_from
from prebinder.config.settings import ServingSettings, Settings, parse_address
from prebinder.errors import UsageError

ALL = tuple(flag for flags in FLAGS.values() for flag in flags)


def settings(*arguments: str) -> Settings:
    return settings_from(Settings(), FLAGS, arguments)


def test_every_setting_has_one_flag() -> None:
    """But for the feature gates, which have one together."""
    groups = [group.name for group in fields(Settings) if group.name != "feature_gates"]
    names = {(group, setting.name) for group in groups for setting in fields(getattr(Settings(), group))}
    assert sorted((flag.group, flag.field) for flag in ALL) == sorted({*names, ("feature_gates", "")})


def test_a_word_becomes_a_member_of_its_enumeration() -> None:
    chosen = settings("--mode", "prebind", "--dynamic-mode", "provision").binding
    assert chosen.mode is Mode.PREBIND
    assert chosen.dynamic_mode is Mode.PROVISION


def test_without_flags_nothing_changes() -> None:
    assert settings() == Settings()


@pytest.mark.parametrize(
    ("arguments", "group", "field", "value"),
    [
        (["--kube-api-qps", "50"], "cluster", "qps", 50.0),
        (["--concurrency", "3"], "binding", "concurrency", 3),
        (["--reservation-ttl", "90s"], "binding", "reservation_ttl", timedelta(seconds=90)),
        (["--dry-run"], "binding", "dry_run", True),
        (["--no-leader-elect"], "leader_election", "enabled", False),
        (["--leader-elect=false"], "leader_election", "enabled", False),
        (["--no-leader-elect", "--leader-elect=true"], "leader_election", "enabled", True),
        (["--dry-run=T"], "binding", "dry_run", True),
        (["--log-level", "debug"], "logging", "level", "debug"),
        (["--health-bind-address", "0"], "serving", "health_bind_address", "0"),
    ],
)
def test_a_flag_sets_its_field(arguments: list[str], group: str, field: str, value: object) -> None:
    assert getattr(getattr(settings(*arguments), group), field) == value


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--concurrency", "three"], '--concurrency: expected a whole number, found "three"'),
        (["--kube-api-qps", "0"], "--kube-api-qps: qps must be more than 0, is 0.0"),
        (["--kube-api-burst", "0"], "--kube-api-burst: burst must be at least 1, is 0"),
        (["--reservation-ttl", "1s"], "--reservation-ttl: reservation TTL must be at least 10s"),
        (["--annotation-prefix", "x"], '--annotation-prefix: annotation prefix must be a domain and "/", is "x"'),
        (["--health-max-age", "0s"], "--health-max-age: max age must be more than 0s"),
        (["--unknown-health", "blok"], '--unknown-health: expected block, allow, found "blok"; did you mean "block"?'),
    ],
)
def test_a_wrong_value_names_its_flag(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError) as raised:
        cli.run(["controller", *arguments])
    assert str(raised.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "address"),
    [(":8080", ("", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0)), ("[::1]:9", ("::1", 9)), ("0", None)],
)
def test_addresses(text: str, address: tuple[str, int] | None) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "8080", "host", "host:", ":65536", ":x", ":²"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(ValueError, match="HOST:PORT"):
        parse_address(text)


def test_a_run_that_ends_by_itself_does_not_serve_at_default_addresses() -> None:
    assert settings("--dry-run").served == ServingSettings()
    assert settings("--dry-run", "--once").served == ServingSettings("0", "0")
    chosen = settings("--dry-run", "--once", "--health-bind-address=:9000")
    assert chosen.served == ServingSettings("0", ":9000")
