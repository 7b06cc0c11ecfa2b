#!/usr/bin/env python3
"""Writes the expected answers of the 22 TPC-H queries: answers/sf<SF>/qNN.csv, computed by DuckDB.

    python3 -m venv V && V/bin/pip install duckdb==2.0.1 tpchgen-cli==4.0.0
    V/bin/python make_answers.py --scratch /some/dir 0.01 1
    V/bin/python make_answers.py --data DIR --out DIR 10        # from files that are there, beside the query texts

The data are made by tpchgen, the generator the `tpch` connector is built on, so both sides see the same rows.

Format: CSV. The header names each column and its type; NULL is an empty field, the empty string is "". Numbers are
printed in full, without an exponent. The types are DuckDB's, except that a DOUBLE is called QUOTIENT: the tables hold no
floating point, so each one is an average or a quotient of decimals, where engines keep different numbers of digits.
`__FRACTION__` in q11 stands for 0.0001 / SF, written as a decimal.
"""
import argparse
import datetime
import decimal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TABLES = ["region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem"]


def fraction(sf):
    """0.0001 / SF as a decimal literal, without trailing zeros."""
    value = decimal.Decimal("0.0001") / decimal.Decimal(sf)
    text = format(value, "f")
    return text.rstrip("0") if "." in text else text


def field(value):
    if value is None:
        return ""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return format(decimal.Decimal(repr(value)), "f")
    if isinstance(value, datetime.date):
        return value.isoformat()
    return quoted(str(value))


def quoted(text):
    if text == "" or any(c in text for c in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def generate(scratch, sf):
    out = scratch / f"sf{sf}"
    if not (out / "lineitem").is_dir():
        out.mkdir(parents=True, exist_ok=True)
        tool = Path(sys.executable).parent / "tpchgen-cli"
        subprocess.run([tool, "parquet", "-s", sf, "-q", "--no-progress", "-o", out, "--parts", "4"], check=True)
    return out


def query_text(number, sf):
    return (HERE / f"queries/q{number:02}.sql").read_text().replace("__FRACTION__", fraction(sf))


def answer(connection, query, target):
    result = connection.execute(query)
    types = [str(c[1]).replace("DOUBLE", "QUOTIENT") for c in result.description]
    lines = [",".join(quoted(f"{c[0]} {t}") for c, t in zip(result.description, types))]
    lines += [",".join(field(v) for v in row) for row in result.fetchall()]
    target.write_text("\n".join(lines) + "\n", newline="")
    return len(lines) - 1


def main():
    args = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--scratch", type=Path, help="where the tables are generated")
    args.add_argument("--data", type=Path, help="tables already generated, for one scale factor")
    args.add_argument("--out", type=Path, help="another place than answers/; the query texts go there too")
    args.add_argument("sf", nargs="+", help="scale factors, as text: 0.01, 1")
    args = args.parse_args()
    if not (args.scratch or args.data):
        sys.exit("one of --scratch and --data says where the tables are")
    import duckdb  # not needed by those who import this file for its functions
    for sf in args.sf:
        data = args.data or generate(args.scratch, sf)
        out = args.out or HERE / f"answers/sf{sf}"
        out.mkdir(parents=True, exist_ok=True)
        connection = duckdb.connect()
        for table in TABLES:
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM read_parquet('{data}/{table}/*.parquet')")
        for number in range(1, 23):
            query = query_text(number, sf)
            if args.out:
                (out / f"q{number:02}.sql").write_text(query)
            print(f"sf{sf} q{number:02}: {answer(connection, query, out / f'q{number:02}.csv')} rows")


if __name__ == "__main__":
    main()
