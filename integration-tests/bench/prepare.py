"""What a benchmark needs before it starts: Python environments, TPC-H files, reference answers, release binaries.

Everything lands below BENCH_DIR (.bench in the repository) and is kept for the next run.
"""
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
TPCH = HERE.parent / "tpch"

REQUIREMENTS = {
    "base": ["duckdb==2.0.1", "datafusion==55.0.0", "tpchgen-cli==4.0.0", "pyarrow"],
    "sail": ["pysail==0.7.2", "pyspark-client>=4", "pyarrow", "pandas", "grpcio", "grpcio-status", "googleapis-common-protos",
             "zstandard"],
    "spark": ["pyspark==4.3.0", "pyarrow"],
    "flink": ["apache-flink-libraries==2.3.0"],  # the jars alone; apache-flink would bring Python packages nobody needs here
}

COLUMNS = {
    "region": "r_regionkey BIGINT, r_name STRING, r_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT, n_comment STRING",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_address STRING, s_nationkey BIGINT, s_phone STRING, s_acctbal DECIMAL(15,2), "
                "s_comment STRING",
    "customer": "c_custkey BIGINT, c_name STRING, c_address STRING, c_nationkey BIGINT, c_phone STRING, c_acctbal DECIMAL(15,2), "
                "c_mktsegment STRING, c_comment STRING",
    "part": "p_partkey BIGINT, p_name STRING, p_mfgr STRING, p_brand STRING, p_type STRING, p_size INT, p_container STRING, "
            "p_retailprice DECIMAL(15,2), p_comment STRING",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2), ps_comment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE, "
              "o_orderpriority STRING, o_clerk STRING, o_shippriority INT, o_comment STRING",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT, l_quantity DECIMAL(15,2), "
                "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, "
                "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct STRING, "
                "l_shipmode STRING, l_comment STRING",
}


def place():
    """The working directory, made with its folders."""
    root = Path(os.environ.get("BENCH_DIR", REPOSITORY / ".bench")).resolve()
    for sub in ("venvs", "data", "answers", "results", "logs", "out"):
        (root / sub).mkdir(parents=True, exist_ok=True)
    return root


def python_with(root, name):
    """The interpreter of a virtual environment with the named requirements, made if it is not there."""
    venv = root / "venvs" / name
    python, done = venv / "bin/python", venv / "requirements.txt"
    wanted = "\n".join(REQUIREMENTS[name])
    if not done.exists() or done.read_text() != wanted:
        print(f"installing {', '.join(REQUIREMENTS[name])}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[name]], check=True)
        done.write_text(wanted)
    return python


def tpch_files(root, python, sf):
    """TPC-H tables as parquet, four files each, the same for every engine."""
    data = root / f"data/tpch-sf{sf}"
    if not data.exists():
        print(f"generating TPC-H at scale factor {sf}", flush=True)
        partial = data.with_suffix(".partial")
        subprocess.run(["rm", "-rf", partial], check=True)
        partial.mkdir(parents=True)
        subprocess.run([python.parent / "tpchgen-cli", "parquet", "-s", sf, "-q", "--no-progress", "-o", partial, "--parts", "4"],
                       check=True)
        partial.rename(data)
    return data


def reference_answers(root, python, data, sf):
    """DuckDB's answers in the format of the test suite, and each query's text as a file."""
    answers = root / f"answers/sf{sf}"
    if not (answers / "q22.csv").exists():
        print("computing reference answers", flush=True)
        subprocess.run([python, TPCH / "make_answers.py", "--data", data, "--out", answers, sf], check=True, stdout=subprocess.DEVNULL)
    return answers


def binaries():
    """Builds the release binaries and returns their directory."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")).resolve()
    subprocess.run(["cargo", "build", "--release", "--workspace", "--bin", "thalweg", "--examples"], cwd=REPOSITORY, check=True)
    return target / "release"


def equal(checker, answers, number, result):
    """Whether a result file is the reference answer; the text of the difference otherwise."""
    command = [checker, answers / f"q{number:02}.csv", answers / f"q{number:02}.sql", result]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip()
