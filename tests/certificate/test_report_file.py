"""The report file: deterministic to write, and read in one way or not at all."""

import copy
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from certify.certificate import SCHEMA_ID, Claim, Report, Verdict, decode, encode, read, schema, to_hex, write
from certify.errors import InputRejected

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63) + 1, 2**63 - 1) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=6,
)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False).map(to_hex)
OBJECTS = st.dictionaries(TEXT, VALUES, max_size=2)
CLAIMS = st.builds(
    Claim,
    id=st.from_regex(r"[a-z]{1,3}/[a-z0-9.()]{1,6}", fullmatch=True),
    kind=st.sampled_from(["rounding", "range", "contraction"]),
    statement=TEXT.filter(bool),
    semantics=st.sampled_from(["real", "program", "any-order"]),
    parameters=OBJECTS,
    verdict=st.sampled_from(Verdict),
    reason=TEXT.filter(bool),
    bounds=st.dictionaries(TEXT, NUMBERS, min_size=1, max_size=2),
    observed=OBJECTS,
    assumptions=st.lists(TEXT.filter(bool), max_size=2),
    theorem=TEXT,
    witness=st.none() | OBJECTS.filter(lambda value: "file" not in value and "sha256" not in value),
    display=st.dictionaries(TEXT, TEXT, max_size=2),
)
PRODUCER = {"name": "certify", "version": "0.1.0", "arithmetic": {"round_to_nearest": True, "fma": "absent"}}
SUBJECT = {
    "case": "polyprox",
    "p": 11,
    "p_max": 16,
    "tensors": {"W": {"sha256": "0" * 64, "dtype": "float64", "shape": [11, 11]}},
    "controls": {"alpha": "0x1.8p+1"},
}


def claim(name="rounding/float32/serial/ball", verdict="certified", **changes):
    """A claim with one bound."""
    fields = {
        "kind": "rounding",
        "statement": "The error of W is at most eps_W.",
        "semantics": "program",
        "reason": "because",
        "bounds": {"eps_W": "0x1.2p-20"},
        "witness": {"file": "NAME.witness.safetensors", "sha256": "f" * 64},
    }
    return Claim(id=name, verdict=verdict, **{**fields, **changes})


def report():
    """A report of two claims, the second of which does not count."""
    claims = [claim(), claim("rounding/float16/serial/ball", "undecided", bounds={})]
    return Report(PRODUCER, SUBJECT, claims, required=["rounding/float32/serial/ball"])


def document():
    """The same report as JSON values, to be damaged."""
    return copy.deepcopy(json.loads(encode(report())))


def refuse(value, match):
    """Assert that a report is refused for this reason, on one line that names the file."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    with pytest.raises(InputRejected, match=match) as caught:
        decode(data, "r.json")
    assert "'r.json'" in caught.value.problem
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@settings(max_examples=30, deadline=None)
@given(st.lists(CLAIMS, min_size=1, max_size=3, unique_by=lambda c: c.id), OBJECTS)
def test_round_trip(claims, extra):
    """Any report comes back equal, and writing it again gives the same bytes."""
    # Names of the subject that the schema reserves are left alone.
    reserved = ("p", "p_max", "tensors", "controls", "case")
    subject = {"case": "x", **{k: v for k, v in extra.items() if k not in reserved}}
    made = Report(PRODUCER, subject, claims)
    data = encode(made)
    assert decode(data, "r.json") == made
    assert encode(decode(data, "r.json")) == data


def test_files_round_trip(tmp_path):
    """The file holds the encoded bytes, and reading it gives the report."""
    write(report(), tmp_path / "r.json")
    assert (tmp_path / "r.json").read_bytes() == encode(report())
    assert read(tmp_path / "r.json") == report()


def test_bytes_are_the_same_in_another_process():
    """No hash seed, clock or path shows in the bytes."""
    program = (
        "import sys, json\n"
        "from certify.certificate import decode, encode\n"
        "sys.stdout.buffer.write(encode(decode(sys.stdin.buffer.read(), '-')))\n"
    )
    data = encode(report())
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program], input=data, capture_output=True, env={"PYTHONHASHSEED": seed}, check=True
        )
        assert done.stdout == data


def test_the_layout_of_the_file():
    """Keys in the order of the format, UTF-8 unescaped, one final newline."""
    made = Report(PRODUCER, SUBJECT, [claim(statement="‖W‖ ≤ 1 for every state")])
    data = encode(made)
    assert list(json.loads(data)) == ["schema", "producer", "subject", "claims", "verdict"]
    assert "‖W‖ ≤ 1".encode() in data
    assert data.endswith(b"}\n") and not data.endswith(b"\n\n")
    assert list(json.loads(encode(report())))[-2:] == ["required", "verdict"]


def test_the_overall_verdict_counts_required_claims():
    """The second claim is undecided and does not count; without `required` it does."""
    assert report().verdict is Verdict.CERTIFIED
    assert Report(PRODUCER, SUBJECT, report().claims).verdict is Verdict.UNDECIDED


def test_the_schema_is_valid_and_strict():
    """It is a schema of 2020-12, and requires of a claim all that Claim.to_json writes."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema())
    assert schema()["properties"]["schema"]["const"] == SCHEMA_ID
    keys = list(claim().to_json())
    assert schema()["$defs"]["claim"]["required"] == keys
    assert list(schema()["$defs"]["claim"]["properties"]) == keys
    assert Draft202012Validator(schema()).is_valid(document())


def change(path, value):
    """The document with one value replaced, or removed if `value` is `...`."""
    changed = document()
    *steps, last = path
    place = changed
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value", "match"),
    [
        (("claims",), [], "holds no claim"),
        (("claims",), ..., "'claims' is a required property"),
        (("claims",), {}, "not valid at /claims"),
        (("claims",), {"a": {"b": 0.5}}, "not valid at /claims/a/b"),
        (("claims",), [3], "not valid at /claims/0"),
        (("claims",), [None] * 10_001, "more than 10000 claims"),
        (("schema",), "certify-report/2", "not a certify-report/1 file"),
        (("schema",), ..., "not a certify-report/1 file"),
        (("verdict",), "undecided", "says undecided, but its claims give certified"),
        (("verdict",), "proved", "not valid at /verdict"),
        (("verdict",), ..., "'verdict' is a required"),
        (("required",), ["nothing"], "required claim 'nothing'"),
        (("required",), [], "not valid at /required"),
        (("required",), ..., "says certified, but its claims give undecided"),
        (("extra",), 1, "'extra' was unexpected"),
        (("producer", "host"), "name", "'host' was unexpected"),
        (("producer", "arithmetic"), ..., "at /producer"),
        (("subject", "case"), ..., "at /subject"),
        (("subject", "controls", "alpha"), "3.0", "at /subject/controls/alpha"),
        (("subject", "tensors", "W", "sha256"), "0", "at /subject/tensors/W/sha256"),
        (("subject", "p"), 1.5, "at /subject/p: a JSON number with a fraction"),
        (("claims", 0, "extra"), 1, r"at /claims/0 \(claim 'rounding/float32/serial/ball'\)"),
        (("claims", 1, "id"), "rounding/float32/serial/ball", "two claims have the id"),
        (("claims", 0, "id"), "a b", "at /claims/0/id"),
        (("claims", 0, "id"), "a\n", "at /claims/0"),
        (("claims", 0, "semantics"), "float", "at /claims/0/semantics"),
        (("claims", 0, "bounds"), {"eps_W": 1e-6}, r"at /claims/0/bounds/eps_W \(claim .*\): a JSON number"),
        (("claims", 0, "bounds"), {"eps_W": 1}, "at /claims/0/bounds/eps_W"),
        (("claims", 0, "bounds"), {"eps_W": "1e-6"}, "at /claims/0/bounds/eps_W"),
        (("claims", 0, "bounds"), {"eps_W": "NaN"}, "at /claims/0/bounds/eps_W"),
        (("claims", 0, "bounds"), {"eps_W": "2/4"}, "not in lowest terms"),
        (("claims", 0, "bounds"), {"eps_W": "1\n"}, "not an exact number"),
        (("claims", 0, "bounds"), {"eps_W": "0x1p+" + "9" * 99}, "exponent"),
        (("claims", 0, "bounds"), {"eps_W": "9" * 20_000}, "at /claims/0/bounds/eps_W"),
        (("claims", 0, "bounds"), None, "at /claims/0/bounds"),
        (("claims", 0, "parameters"), {"region": {"radius": 0.5}}, "at /claims/0/parameters/region/radius"),
        (("claims", 0, "observed"), {"error_W": 0.5}, "at /claims/0/observed/error_W"),
        (("claims", 0, "witness"), {"L": [["1", 0.5]]}, "at /claims/0/witness/L/0/1"),
        (("claims", 0, "witness"), {"file": "w"}, "sha256"),
        (("claims", 0, "witness"), {"file": "../w", "sha256": "0" * 64}, "at /claims/0/witness/file"),
        (("claims", 0, "witness"), [], "at /claims/0/witness"),
        (("claims", 0, "parameters"), {"n": 10**19}, "beyond 64 bits"),
        (("claims", 0, "parameters"), {"n": 10**30}, "31 characters"),
        (("claims", 1, "reason"), "", "at /claims/1/reason"),
        (("claims", 1, "verdict"), "certified", "not valid|needs a bound"),
        (("claims", 0, "display"), {"eps_W": 1}, "at /claims/0/display/eps_W"),
    ],
)
def test_damaged_reports_are_refused(path, value, match):
    """Each fault is named with its JSON pointer, and with the claim where it is in one."""
    changed = change(path, value)
    if path == ("claims", 1, "verdict"):
        changed["claims"][1]["witness"] = None
    refuse(changed, match)


@pytest.mark.parametrize("key", list(claim().to_json()))
def test_no_key_of_a_claim_may_be_missing(key):
    """A claim is complete or refused."""
    refuse(change(("claims", 0, key), ...), f"'{key}' is a required property")


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "not valid"),
        (b"[]", "not a certify-report/1"),
        (b"null", "not a certify-report/1"),
        (b'{"schema": "certify-report/1", "schema": "certify-report/1"}', "'schema' occurs twice"),
        (b'{"schema": "certify-report/1", "claims": [NaN]}', "NaN"),
        (b'{"schema": "certify-report/1", "claims": [1e999]}', "at /claims/0"),
        (b"[" * 100_000, "not valid"),
        (b'{"schema": "certify-report/1", "claims": ' + b"[" * 70 + b"]" * 70 + b"}", "nested deeper"),
        (b" " * ((32 << 20) + 1), "more than"),
    ],
)
def test_hostile_text_is_refused(data, match):
    """What is no strict JSON, or too large, is refused before the schema is asked."""
    refuse(data, match)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_or_harmless(data):
    """Overwriting bytes anywhere gives a report that can be written again, or InputRejected."""
    contents = bytearray(encode(report()))
    start = data.draw(st.integers(0, len(contents)))
    length = data.draw(st.integers(0, 3))
    contents[start : start + length] = data.draw(st.binary(max_size=4))
    try:
        found = decode(bytes(contents), "r.json")
    except InputRejected:
        return
    assert decode(encode(found), "r.json") == found


def test_every_truncation_is_refused():
    """A report cut anywhere before its last brace is refused."""
    contents = encode(report())
    for end in range(len(contents) - 2):
        with pytest.raises(InputRejected):
            decode(contents[:end], "r.json")


def test_an_empty_report_is_not_written(tmp_path):
    """No claim is no success: exit code 3, and no file."""
    with pytest.raises(InputRejected, match="no claim") as caught:
        write(Report(PRODUCER, SUBJECT, []), tmp_path / "r.json")
    assert caught.value.exit_code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Report({**PRODUCER, "host": "x"}, SUBJECT, [claim()]), "host"),
        (lambda: Report(PRODUCER, {}, [claim()]), "case"),
        (lambda: Report(PRODUCER, SUBJECT, [claim()], required=[]), "required"),
        (lambda: Report(PRODUCER, {**SUBJECT, "time": 0.5}, [claim()]), "float"),
        (lambda: Report(PRODUCER, SUBJECT, [claim(), claim()]), "two claims"),
        (lambda: Report(PRODUCER, SUBJECT, [claim()], required=["x"]), "'x'"),
    ],
)
def test_no_report_is_written_that_would_not_be_read(make, match):
    """A report outside its own schema is a fault of the program that makes it."""
    with pytest.raises(ValueError, match=match):
        encode(make())


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda path: None, "there is no file 'r.json'"),
        (lambda path: path.mkdir(), "'r.json' is not a regular file"),
        (lambda path: path.symlink_to(path), "cannot read 'r.json'"),
        (lambda path: path.write_bytes(b"\x80\x04N."), "UTF-8"),
    ],
)
def test_unreadable_files_are_refused(tmp_path, monkeypatch, make, match):
    """What cannot be read is refused in one sentence, with the name as it was given."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "r.json")
    with pytest.raises(InputRejected, match=match):
        read("r.json")
    with pytest.raises(InputRejected, match="not a possible file name"):
        read("r\0.json")


def test_importing_does_not_load_the_validator():
    """The command starts without jsonschema."""
    program = "import sys, certify.certificate, certify.states; print('jsonschema' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
