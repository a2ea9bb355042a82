"""JSON records of all kinds for one schema: plain, unusual and invalid ones."""

import json
from random import Random

SCHEMA = (
    "id BIGINT NOT NULL, i INT, t TINYINT, sh SMALLINT, d DOUBLE, f FLOAT, s STRING, b BOOLEAN, "
    "ts TIMESTAMP, tn TIMESTAMP_NTZ, dt DATE, dec DECIMAL(6,2), wide DECIMAL(30,4), "
    "arr ARRAY<INT>, st STRUCT<x: INT, y: STRING, z: STRUCT<q: DOUBLE>>, m MAP<STRING, INT>, "
    "need STRUCT<k: INT NOT NULL, v: STRING> NOT NULL, "
    "sts ARRAY<STRUCT<q: DOUBLE, r: ARRAY<STRING>>>, md MAP<STRING, ARRAY<DOUBLE>>"
)
_INTEGERS = ("0", "1", "-1", "-0", "127", "128", "-128", "-129", "255", "256", "32767", "32768")
_LARGE = (
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999",
    "012",
    "1.0",
    "1e2",
    "+1",
    "1.",
    ".5",
    "-",
    '"5"',
)
_FLOATS = (
    "0.0",
    "-0.0",
    "0.1",
    "1e23",
    "8.5e-5",
    "9007199254740993",
    "9007199254740992.5",
    "2.2250738585072014e-308",
    "5e-324",
    "1.7976931348623157e308",
    "1e309",
    "-1e309",
    "3.4028235e38",
    "3.5e38",
    "16777217",
    "1.00000017881393432617187499",
    "0.000000000000000000000000001",
    "123456789012345678901234567890",
    "1E5",
    "1e+5",
    "NaN",
    "Infinity",
    '"1.5"',
)
_DECIMALS = ("1.23", "-9999.99", "9999.99", "10000", "1.235", "0.005", "1e2", "-0.00", '"1.2"')
_TIMES = (
    "2026-01-02T03:04:05Z",
    "2026-01-02 03:04:05",
    "2026-01-02T03:04:05.1Z",
    "2026-01-02T03:04:05.123456+02:00",
    "2026-01-02T03:04:05.1234567Z",
    "2026-01-02T03:04:05-05:30",
    "2024-02-29T23:59:59Z",
    "2023-02-29T00:00:00Z",
    "1900-02-29T00:00:00Z",
    "2000-02-29T00:00:00Z",
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-01:00",
    "1582-10-10T00:00:00Z",
    "1969-12-31T23:59:59.999999Z",
    "2026-01-02T24:00:00Z",
    "2026-01-02T03:60:00Z",
    "2026-01-02T03:04:60Z",
    "2026-01-02T03:04Z",
    "2026-01-02T3:04:05Z",
    "2026-01-02T03:04:05+2:00",
    "2026-01-02T03:04:05+19:00",
    "2026-01-02T03:04:05 Europe/Berlin",
    "2026-13-02T03:04:05Z",
    "2026-01-02",
    "2026-1-2",
    "2026-01-00",
    "2024-02-29",
    "2023-02-29",
    "10000-01-01",
    "0000-01-01",
    "tomorrow",
    "",
    " 2026-01-02T03:04:05Z",
)
_TEXTS = (
    '""',
    '"plain"',
    '"a longer text that has more than eight bytes"',
    '"Lange Stra\u00dfe, \u65e5\u672c, \U0001f600"',
    r'"\"quoted\" \\ \/ \b\f\n\r\t"',
    r'"caf\u00e9 \u65e5 \ud83d\ude00\ud83d\ude00 \u0000"',
    r'"\\ud800 \\\\ud800"',
    r'"\ud800"',
    r'"\udc00"',
    r'"\ud800x"',
    r'"\uD83D\u0041"',
    r'"\\ud83d\ude00"',
    r'"\x41"',
    r'"\u00g0"',
    r'"\u12"',
    '"12"',
    '"true"',
    '"[1]"',
    '"{}"',
    "5",
    "true",
    "[1]",
    '{"a":1}',
    '"line\nbreak"',
    '"tab\there"',
    '"\x7f\x80\u2028"',
    '"unclosed',
    "'single'",
)
_NAMES = (
    *("id", "i", "t", "sh", "d", "f", "s", "b", "ts", "tn", "dt", "dec", "wide"),
    *("arr", "st", "m", "need", "sts", "md", "unknown"),
)
_ODD = ("null", "nul", "True", "{}", "[]", '""', "0", "[null]", "tru", "")
_BLANKS = ("", "", "", " ", "\n", "\t ", "\r\n", "\f", "\u00a0")


class Records:
    """Random records, the same for each seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def plain(self) -> bytes:
        """A record as most producers write it."""
        random = self._random
        made = {
            "id": random.randrange(-(2**63), 2**63),
            "i": random.randrange(-(2**31), 2**31),
            "t": random.randrange(-128, 128),
            "d": random.choice((random.uniform(-90, 90), random.expovariate(1e-9), 1e-7, 12.5)),
            "f": round(random.uniform(-1000, 1000), 2),
            "s": random.choice(("", "x" * 30, "Stra\u00dfe \U0001f600", 'a "b"', "12")),
            "b": random.random() < 0.5,
            "ts": f"2026-01-{random.randrange(1, 29):02}T05:06:07.{random.randrange(1000):03}Z",
            "dt": f"20{random.randrange(100):02}-02-28",
            "dec": round(random.uniform(-9999, 9999), 2),
            "arr": [random.choice((None, 1, -5)) for _ in range(random.randrange(4))],
            "st": random.choice((None, {"x": 1, "y": "z", "z": {"q": 0.25}}, {"y": "1"})),
            "m": {f"k{number}": number for number in range(random.randrange(4))},
            "need": {"v": None, "k": 3},
            "sts": [{"q": 1.5, "r": ["a", None]}, None, {"r": []}][: random.randrange(4)],
            "md": {"a": [1.5, None], "b": None},
            "unknown": random.choice((1, "x", [{"a": [1, 2]}, {}], {"id": "5"})),
        }
        names = list(made)
        if random.random() < 0.3:
            random.shuffle(names)
        chosen = {
            name: made[name] for name in names if name in ("id", "need") or random.random() < 0.8
        }
        return json.dumps(chosen, ensure_ascii=random.random() < 0.5).encode()

    def odd(self) -> bytes:
        """A record as if written by hand, with valid and invalid values for its fields."""
        random = self._random
        names = [name for name in _NAMES if name in ("id", "need") or random.random() < 0.15]
        if random.random() < 0.05:
            names.append(random.choice(names))
        if random.random() < 0.05:
            names.remove(random.choice(("id", "need")))
        blank = random.choice(_BLANKS) if random.random() < 0.1 else ""
        fields = [f'"{name}"{blank}:{blank}{self._value(name)}' for name in names]
        made = f"{blank}{{{blank}{f'{blank},{blank}'.join(fields)}{blank}}}{blank}".encode(
            "utf-8", "surrogatepass"
        )
        return self._broken(made) if random.random() < 0.1 else made

    def _value(self, name: str) -> str:
        random = self._random
        if random.random() < 0.03:
            return random.choice(_ODD)
        match name:
            case "id":
                return random.choice(("1", "-7", *_LARGE)) if random.random() < 0.1 else "1"
            case "i" | "t" | "sh":
                return random.choice(_INTEGERS if random.random() < 0.6 else _LARGE)
            case "d" | "f":
                made = f"{random.uniform(-1, 1) * 10.0 ** random.randrange(-320, 309)!r}"
                return random.choice(_FLOATS if random.random() < 0.5 else (made,))
            case "dec" | "wide":
                return random.choice((*_DECIMALS, str(random.randrange(10**17) / 10**8)))
            case "ts" | "tn" | "dt":
                return json.dumps(random.choice(_TIMES)) if random.random() < 0.95 else "1700000000"
            case "b":
                return random.choice(("true", "false", "null", '"true"', "1"))
            case "arr":
                return random.choice(("[]", "[ ]", "[1,2]", "[1,null]", "[1,]", "[,1]", "[1 2]"))
            case "st":
                inner = f'{{"x":{random.choice(_INTEGERS)},"y":{random.choice(_TEXTS)}}}'
                return random.choice((inner, "{}", '{"z":{"q":1e5}}', '{"x":1,"x":2}', '{"x"}'))
            case "m":
                return random.choice(('{"a":1}', '{"a":1,"a":2}', '{"a":null}', '{"\\u0061":1}'))
            case "need":
                return '{"k":1}' if random.random() < 0.9 else random.choice(("{}", '{"k":null}'))
            case "sts":
                number = random.choice(_FLOATS)
                return random.choice((f'[{{"q":{number}}}]', '[{"r":["a","b"]},null]', "[{}]"))
            case "md":
                return random.choice(('{"a":[1,2.5]}', '{"a":[1e400]}', '{"a":{}}', '{"a":[]}'))
            case "unknown":
                return random.choice((*_TEXTS, *_FLOATS, "[[1],{}]", '{"a":{"a":[]}}', "[" * 70))
        return random.choice(_TEXTS)

    def _broken(self, made: bytes) -> bytes:
        random = self._random
        at = random.randrange(len(made))
        return random.choice(
            (
                made[:at],
                made + b"}",
                made + b" x",
                made + made,
                made[:at] + bytes([random.randrange(256)]) + made[at + 1 :],
                b"\xef\xbb\xbf" + made,
                b"",
            )
        )
