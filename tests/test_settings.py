from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from postern import settings
from postern.domain.durations import parse_duration
from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.settings import AgentSettings, Settings
from postern.settings_example import example, toml_value
from postern.settings_file import MAX_SIZE, read_settings_file
from postern.settings_values import is_secret, option_of, variable_of

FILE = {"POSTERN_CONFIG": "postern.toml"}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str, mode: int = 0o600) -> Mapping[str, str]:
    """Write the configuration file; return the environment that names it."""
    file = Path("postern.toml")
    file.write_text(text)
    file.chmod(mode)
    return FILE


def all_settings() -> list[tuple[type, str]]:
    return [(kind, spec.name) for kind in (Settings, AgentSettings) for spec in fields(kind)]


def other_value(kind: type, name: str) -> Any:
    """Return a valid value that is not the default."""
    spec, hint = kind.__dataclass_fields__[name], get_type_hints(kind)[name]  # type: ignore[attr-defined]
    if spec.metadata.get("choices"):
        return (
            spec.metadata["choices"][-1]
            if spec.default != spec.metadata["choices"][-1]
            else spec.metadata["choices"][0]
        )
    if hint is bool:
        return not spec.default
    if hint is int:
        return max(spec.metadata.get("least", 0), min(spec.default + 1, spec.metadata.get("most", 1 << 40)))
    if hint is float:
        return spec.default + 1.5
    return {Path: Path("/somewhere"), Secret: Secret("another secret"), str: "some text"}[hint]


def load_any(kind: type, environ: Mapping[str, str], **flags: Any) -> Any:
    return (settings.load if kind is Settings else settings.load_agent)(
        {"POSTERN_KEY": "x", **environ} if kind is AgentSettings and "POSTERN_KEY_FILE" not in environ else environ,
        **flags,
    )


def as_toml(value: Any) -> str:
    return toml_value(value.reveal() if isinstance(value, Secret) else value)


def as_text(value: Any) -> str:
    return value.reveal() if isinstance(value, Secret) else str(value)


def test_flags_win_over_environment_over_defaults() -> None:
    environ = {"POSTERN_HOME": "/data", "POSTERN_API_PORT": "1000", "POSTERN_DEMO_PORT": "2000"}
    loaded = settings.load(environ, api_port=3000, demo_port=None)
    assert (loaded.home, loaded.api_port, loaded.demo_port, loaded.postgres_port) == (Path("/data"), 3000, 2000, 7432)


def test_a_child_that_is_given_the_environment_has_the_same_settings() -> None:
    given = Settings(home=Path("/data"), demo=False, idle_timeout=1.5, workers=3, host="::1", database_url="sqlite://")
    assert settings.load(given.environment()) == given


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("POSTERN_API_PORT", "many", "valid int"), ("POSTERN_DEMO", "perhaps", "yes or no")],
)
def test_a_wrong_value_is_named(name: str, value: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=rf"{name}: '{value}' is not.*{why}"):
        settings.load({name: value})


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({}, "http://localhost:7480"),
        ({"host": "0.0.0.0", "public_host": "db.example.com"}, "https://db.example.com:7480"),
        ({"host": "2001:db8::1", "api_port": 443}, "https://[2001:db8::1]:443"),
    ],
)
def test_plain_http_is_for_loopback_only(changes: dict[str, object], url: str) -> None:
    assert settings.load({"POSTERN_HOME": "/data"}, **changes).api_url == url


@pytest.mark.parametrize(("kind", "name"), all_settings(), ids=lambda part: getattr(part, "__name__", part))
def test_each_setting_is_read_from_each_source(kind: type, name: str) -> None:
    value = other_value(kind, name)
    default = kind.__dataclass_fields__[name].default  # type: ignore[attr-defined]
    assert value != default
    in_file = written(f"{name} = {as_toml(value)}")
    if name != "key":  # it is always in the environment here
        assert getattr(load_any(kind, in_file), name) == value
    assert getattr(load_any(kind, {variable_of(name): as_text(value)}), name) == value
    if not isinstance(value, Secret):
        assert getattr(load_any(kind, {}, **{name: value}), name) == value
    if is_secret(kind, name):
        Path("apart").write_text(as_text(value) + "\n")
        assert getattr(load_any(kind, {variable_of(f"{name}_file"): "apart"}), name) == value
        if name != "key":
            assert getattr(load_any(kind, written(f'{name}_file = "apart"', 0o644)), name) == value


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=3)), ids=str)
def test_the_first_source_with_a_value_wins(present: tuple[bool, bool, bool]) -> None:
    """A table of all combinations: option, environment, file, default."""
    flag, variable, file = present
    environ = {**(written("dial_timeout = 3") if file else {}), **({"POSTERN_DIAL_TIMEOUT": "2"} if variable else {})}
    flags = {"dial_timeout": 1.0} if flag else {}
    expected = next(value for value, there in zip((1.0, 2.0, 3.0, 10.0), (*present, True), strict=True) if there)
    source = next(
        kind for kind, there in zip(("flag", "environment", "file", "default"), (*present, True), strict=True) if there
    )
    resolved = settings.resolve(Settings, environ, flags)
    assert (resolved.values["dial_timeout"], resolved.origins["dial_timeout"].kind) == (expected, source)


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=4)), ids=str)
def test_sources_of_a_secret(present: tuple[bool, bool, bool, bool]) -> None:
    """A secret beside its own file is refused within a source; the environment wins over the file."""
    variable, variable_file, file, file_file = present
    Path("one").write_text("by variable")
    Path("two").write_text("by file")
    text = ('metrics_token = "in file"\n' if file else "") + ('metrics_token_file = "two"\n' if file_file else "")
    environ = {
        **written(text),
        **({"POSTERN_METRICS_TOKEN": "in variable"} if variable else {}),
        **({"POSTERN_METRICS_TOKEN_FILE": "one"} if variable_file else {}),
    }
    if (variable and variable_file) or (not (variable or variable_file) and file and file_file):
        with pytest.raises(Misconfigured, match="are both set"):
            settings.load(environ)
        return
    pairs = (("in variable", variable), ("by variable", variable_file), ("in file", file), ("by file", file_file))
    expected = next((value for value, there in pairs if there), "")
    assert settings.load(environ).metrics_token == Secret(expected)


def test_empty_values_count_as_none_and_an_empty_option_chooses_the_default() -> None:
    environ = {**written('public_host = "in.file"\noidc_issuer = ""'), "POSTERN_PUBLIC_HOST": ""}
    assert settings.load(environ).public_host == "in.file"
    assert settings.load(environ, public_host="").public_host == ""


def test_tables_join_their_name_and_key() -> None:
    loaded = settings.load(
        written('[oidc]\nissuer = "https://login"\nscopes = ["openid", "email"]\n[tls]\ncert = "c"\nkey = "k"\n')
    )
    assert (loaded.oidc_issuer, loaded.oidc_scopes) == ("https://login", "openid email")
    assert (loaded.tls_cert, loaded.tls_key) == ("c", "k")


def test_natural_values_of_toml() -> None:
    loaded = settings.load(
        written(
            'trusted_proxies = ["10.0.0.0/8", "192.0.2.1"]\nmax_duration = "36h"\nidle_timeout = 90\n'
            "dial_timeout = 0.5\ndemo = false\nworkers = 4\n"
        )
    )
    assert [str(proxy) for proxy in loaded.proxies] == ["10.0.0.0/8", "192.0.2.1/32"]
    assert (loaded.max_duration, loaded.idle_timeout, loaded.dial_timeout) == (36 * 3600.0, 90.0, 0.5)
    assert (loaded.demo, loaded.workers) == (False, 4)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("api_prt = 1", r"postern.toml:1: there is no setting 'api_prt'; did you mean api_port\?"),
        ("\n[oidc]\nisuer = 1", r"postern.toml:3: there is no setting 'oidc_isuer'; did you mean oidc_issuer\?"),
        ("[agent]\nkey = 1", r"no setting 'agent_key'; did you mean key\?"),
        ("zzz = 1", "no setting 'zzz'; `postern config example --all` lists all"),
        ('tls_cert = "a"\n[tls]\ncert = "b"', "postern.toml:3: tls_cert is set already at postern.toml:1"),
        ('api_port = "80"', "postern.toml:1: api_port: '80' is not a valid int; write a number without quotes"),
        ("api_port = true", "api_port: True is not a valid int"),
        ("api_port = 80.5", "api_port: 80.5 is not a valid int"),
        ("api_port = 70000", "out of range; it must be from 0 to 65535"),
        ("workers = 0", "out of range; it must be at least 1"),
        ("demo = 1", "write true or false"),
        ('oidc_issuer = "https://["', "is not a valid address"),
        ('tls_cert = "a\\u0000b"', "contains a NUL character"),
        ("host = 1", "write a text in quotes"),
        ("host = [1]", "write a text in quotes"),
        ("[host]\nx = 1", "no setting 'host_x'"),
        ("trusted_proxies = [1]", "is not a valid list"),
        ('trusted_proxies = ["10.0.0.0/8,::1"]', "is not a valid list"),
        ('idle_timeout = "soon"', "is not a valid duration, such as 90, 30s, 10m or 48h"),
        ("idle_timeout = -1", "out of range"),
        ("idle_timeout = nan", "out of range"),
        ("idle_timeout = inf", "out of range"),
        ("max_duration = 1e999", "out of range"),
        ('runbook_timeout = "1h30"', "is not a valid duration"),
        ('log_level = "loud"', "'loud' is unknown; use one of debug, info, warning, error"),
        ("= 1", r"cannot be read: it is not TOML: .*line 1"),
        ("metrics_token = 1", "metrics_token: the value is not a valid text"),
        ("metrics_token_file = 1", "metrics_token_file: write the path"),
        ('metrics_token_file = "/nope"', "the file /nope cannot be read: No such file"),
        ('metrics_token_file = "/dev/null"', "/dev/null is empty"),
        ('metrics_token_file = "/dev/zero"', "has more than 65536 bytes"),
    ],
)
def test_mistakes_in_the_file_are_named(text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        settings.load(written(text))


def test_all_problems_are_counted() -> None:
    with pytest.raises(Misconfigured, match=r"\(2 more problems: `postern config check` lists all\)"):
        settings.load(written("a = 1\nb = 2"), api_port="x")


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ('metrics_token = "hunter2hunter2"', True),
        ('database_url = "postgresql://u:hunter2@h/n"', True),
        ('database_url = "postgresql://h/n?password=hunter2"', True),
        ('database_url = "sqlite:////srv/postern.db"', False),
        ('database_url = "postgresql://user@host/name"', False),
        ('database_url = "postgresql://u:p@hunter2@h/n"', True),
        ('host = "::1"', False),
    ],
)
def test_secrets_are_accepted_only_in_a_file_that_others_cannot_read(text: str, secret: bool) -> None:
    assert settings.load(written(text, 0o640))
    if not secret:
        assert settings.load(written(text, 0o644))
        return
    with pytest.raises(Misconfigured, match=r"chmod o-r postern.toml, or set \w+_file") as error:
        settings.load(written(text, 0o644))
    assert "hunter2" not in str(error.value)


def test_attack_a_file_that_every_user_can_change_is_refused() -> None:
    with pytest.raises(Misconfigured, match="can be changed by every user"):
        settings.load(written('host = "::1"', 0o606))


def test_values_of_secrets_are_in_no_message() -> None:
    for text in ('metrics_token = ["hunter2"]', 'database_url = ["hunter2"]'):
        with pytest.raises(Misconfigured) as error:
            settings.load(written(text))
        assert "hunter2" not in str(error.value)


def test_file_that_was_chosen_must_exist_and_the_default_one_need_not() -> None:
    with pytest.raises(Misconfigured, match=r"nope\.toml does not exist"):
        settings.load({"POSTERN_CONFIG": "nope.toml"})
    with pytest.raises(Misconfigured, match=r"nope\.toml does not exist"):
        settings.load(written("workers = 2"), config="nope.toml")
    assert settings.load({}, config=written("workers = 2")["POSTERN_CONFIG"]).workers == 2


def test_file_in_the_default_place_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    written("workers = 7")
    monkeypatch.setattr("postern.settings_values.DEFAULT_PLACE", Path("postern.toml"))
    assert settings.load({}).workers == 7
    assert settings.load({"POSTERN_CONFIG": "/dev/null"}).workers == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff", "not UTF-8 at byte 0"),
        (b"#" * (MAX_SIZE + 1), "more than"),
        (b"a=" + b"[" * 9000, "nested too deeply|not TOML"),
    ],
    ids=["bytes", "size", "nesting"],
)
def test_file_that_cannot_be_read_as_a_whole(content: bytes, why: str) -> None:
    Path("postern.toml").write_bytes(content)
    with pytest.raises(Misconfigured, match=why):
        settings.load(FILE)
    with pytest.raises(Misconfigured, match="Is a directory"):
        settings.load({}, config=".")
    with pytest.raises(Misconfigured, match="cannot be read"):
        settings.load({}, config="a\0b")


def test_deeply_nested_tables_are_no_recursion() -> None:
    with pytest.raises(Misconfigured, match=r"no setting|nested too deeply"):
        settings.load(written(".".join(["a"] * 5000) + " = 1"))


def test_secret_by_a_systemd_credential() -> None:
    Path("credentials").mkdir()
    Path("credentials/token").write_text("by systemd\r\n")
    environ = {**written('metrics_token_file = "$CREDENTIALS_DIRECTORY/token"'), "CREDENTIALS_DIRECTORY": "credentials"}
    assert settings.load(environ).metrics_token == Secret("by systemd")


def test_children_get_all_settings_and_read_no_file() -> None:
    Path("token").write_text("a token of the file")
    environ = {
        **written('public_host = "from.file"\noidc_scopes = ["openid"]'),
        "POSTERN_METRICS_TOKEN_FILE": "token",
    }
    loaded = settings.load(environ, public_host="")
    written('public_host = "changed"\nworkers = 9\nnonsense = 1')
    Path("token").unlink()
    child = {**environ, **loaded.environment()}
    assert settings.load(child) == loaded


def test_one_file_can_hold_a_gateway_and_an_agent() -> None:
    environ = written('workers = 2\nagent_grace = "1m"\n[agent]\npolicy = "p.toml"\n')
    Path("key").write_text("grpcs://edge\n")
    assert settings.load(environ).workers == 2
    agent = settings.load_agent({**environ, "POSTERN_KEY_FILE": "key"})
    assert (agent.key, agent.agent_policy, agent.agent_grace) == (Secret("grpcs://edge"), "p.toml", 60.0)


@pytest.mark.parametrize("is_whole", [False, True])
def test_example_is_valid_as_it_is_and_without_its_comment_signs(is_whole: bool) -> None:
    text = example(is_whole=is_whole)
    assert settings.load(written(text, 0o644)) == settings.load({})
    active = "\n".join(
        line[1:] if line.startswith("#") and not line.startswith("# ") else line for line in text.split("\n")
    )
    file = read_settings_file(Path(written(active)["POSTERN_CONFIG"]), settings.known_names())
    assert file.problems == ()
    own = {name for _, name in all_settings()}
    apart = {name for name in file.values if name not in own}
    assert {name.removesuffix("_file") for name in apart} | (file.values.keys() - apart) == own or not is_whole
    assert len(file.values) >= 10
    if is_whole:  # these are the defaults
        plain = "\n".join(line for line in active.split("\n") if line.split(" =")[0] not in apart)
        assert settings.load(written(plain), home="/x") == settings.load({}, home="/x")


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.text(max_size=200))
def test_any_text_is_read_or_misconfigured(text: str) -> None:
    Path("postern.toml").write_text(text)
    with suppress(Misconfigured):
        settings.load(FILE)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_misconfigured(content: bytes) -> None:
    Path("postern.toml").write_bytes(content)
    with suppress(Misconfigured):
        settings.load(FILE)


@given(name=st.sampled_from(sorted(settings.known_names() - {"home"})), value=VALUES)
def test_any_value_of_any_setting_is_read_or_misconfigured(name: str, value: object) -> None:
    """With JSON's form of the value, which is TOML's for most, and nonsense otherwise."""
    Path("postern.toml").write_text(f"{name} = {json.dumps(value, ensure_ascii=False)}", errors="replace")
    Path("postern.toml").chmod(0o600)
    try:
        loaded = settings.load(FILE)
    except Misconfigured:
        return
    assert all(type(getattr(loaded, spec.name)) is not type(None) for spec in fields(loaded))


@given(
    name=st.sampled_from([spec.name for spec in fields(Settings) if spec.name != "home"]), value=st.text(max_size=30)
)
def test_any_text_of_any_variable_is_read_or_misconfigured(name: str, value: str) -> None:
    with suppress(Misconfigured):
        settings.load({variable_of(name): value})


def test_every_setting_has_a_description_and_options_have_their_names() -> None:
    for kind, name in all_settings():
        spec = kind.__dataclass_fields__[name]  # type: ignore[attr-defined]
        assert spec.metadata["meaning"]
        assert (spec.default is MISSING) == (name == "home")
    assert option_of("api_port") == "--api-port"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        *(("90", 90.0), ("0.5", 0.5), ("30s", 30.0), ("10m", 600.0), ("48h", 172_800.0), ("2d", 172_800.0)),
        *(("1h30m", 5_400.0), ("250ms", 0.25), (" 5s ", 5.0)),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "1x", "1h30", "30 s", "nan", "inf", "1e999", "--1", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration(text)
