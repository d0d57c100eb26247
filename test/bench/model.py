# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Modelled times by size: runs model_calls under a model, and puts published figures beside. Called by model.sh."""

import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile

SRC = os.environ["GPUHIER_SRC"]
BUILD = os.environ["GPUHIER_BUILD"]
KIB, MIB = 1 << 10, 1 << 20

COLLECTIVES = ("allreduce", "reduce", "bcast", "allgather", "allgatherv", "reduce_scatter", "reduce_scatter_block",
               "alltoall", "alltoallv")

INSTRUCTIONS = 1600  # of a short call: the bound that the test bench/instructions holds
INSTRUCTIONS_PER_NS = 3

# What nccl-tests printed, where its output is published: microseconds by bytes, out of place, sum of float.
NCCL_SOURCE = {
    "NCCL": "2.30.7, 8 x H200, stas00/ml-engineering, network/benchmarks/README.md; 2.29.2, 4 x H100, "
            "waynehacking8/nccl-collectives-bench, results/symmetric/all_reduce_reg0_graph0.txt",
    "symmetric": "2.30.4, 8 x H200, buffers in symmetric windows, calls in a CUDA graph, "
                 "C-TC/multi-gpu-programming-models, bench_fair_nccl_intra_all_reduce_t1-newcluster-20260504.log",
}


def of_busbw(ranks, table):
    """Microseconds by bytes, of a table of GB/s of bus bandwidth."""
    return {size: size * 2 * (ranks - 1) / ranks / rate / 1e3 for size, rate in table.items()}


NCCL = {
    "NCCL": {
        4: {8: 23.51, KIB: 24.02, 8 * KIB: 25.86, 16 * KIB: 25.90, 64 * KIB: 27.15, 256 * KIB: 28.26, MIB: 27.80,
            4 * MIB: 43.42, 16 * MIB: 101.35},
        8: of_busbw(8, {64 * KIB: 6.26, 256 * KIB: 24.63, MIB: 72.45, 4 * MIB: 139.97, 16 * MIB: 242.45,
                        64 * MIB: 369.82, 256 * MIB: 442.27, 1024 * MIB: 464.00}),
    },
    "symmetric": {
        8: {KIB: 5.07, 8 * KIB: 5.42, 16 * KIB: 5.52, 64 * KIB: 6.02, 256 * KIB: 6.89, MIB: 11.13, 4 * MIB: 21.95,
            16 * MIB: 68.05, 64 * MIB: 251.74, 256 * MIB: 982.72, 1024 * MIB: 3895.25},
    },
}


def nccl_us(ranks, size):
    """Published times of NCCL's all-reduce, where there are any."""
    return {kind: by_ranks[ranks][size] for kind, by_ranks in NCCL.items() if size in by_ranks.get(ranks, {})}


def size_text(size):
    for unit, text in ((MIB, "MiB"), (KIB, "KiB")):
        if size >= unit:
            return f"{size // unit} {text}"
    return f"{size} B"


def pace_of(size, ranks, is_stock, nodes):
    """Dilation, warm-up calls (in which the component tries its paths), timed trains, and the calls in a train."""
    if nodes > 1:
        # A message costs a host 50 to 100 us in TCP, and more where ranks wait for a processor: 10 ns of modelled time.
        # The barrier before a call lets the nodes go at times that differ by up to 4 us, hence trains.
        return (10000, 6, 7, 10) if size <= MIB else (2000 * ranks, 4, 3, 1)
    if size <= MIB:
        return 1000, 16, 11, 1
    if is_stock:
        return 500, 1, 3, 1  # calls of ten modelled milliseconds
    return 500 * ranks, 8, 5, 1  # so that two cores do the work itself in the time that the model gives it


def model_figure(path, key):
    """A figure of a model file."""
    with open(path, encoding="utf-8") as file:
        return float(re.search(rf"^{re.escape(key)} *= *([\d.]+)", file.read(), re.MULTILINE).group(1))


def ports(folder, count):
    """Made-up files of an active RDMA port for each rail, in a folder that stands for /."""
    texts = {}
    for i in range(count):
        device = os.path.join("sys/class/infiniband", f"rail{i}", "ports/1")
        texts |= {f"{device}/state": "4: ACTIVE", f"{device}/rate": "400 Gb/sec (4X NDR)",
                  f"sys/class/infiniband_verbs/uverbs{i}/ibdev": f"rail{i}", f"dev/infiniband/uverbs{i}": ""}
    top = os.path.join(folder, f"ports{count}")
    for path, text in texts.items():
        os.makedirs(os.path.dirname(os.path.join(top, path)), exist_ok=True)
        with open(os.path.join(top, path), "w", encoding="utf-8") as file:
            file.write(text + "\n")
    return top


def rails(options, ranks, dilation):
    """A rail for each GPU, a made-up RDMA port: UCX's TCP over a relay, straight from and to GPU memory."""
    rate = 1e9 * model_figure(options.model_file, "rail.rate") / dilation
    latency = model_figure(options.model_file, "rail.latency") * dilation
    made_up = [os.path.join(BUILD, f"test/nodes/.libs/libmade_up_{what}.so") for what in ("nic", "port")]
    for library in made_up:
        if not os.path.exists(library):
            sys.exit(f"model: no {library}; make check builds it")
    return ["--rails", str(ranks), "--rate", f"{rate / 1e3:.3f}kbps", "--latency", f"{latency:.3f}us",
            "-x", "MADE_UP_NIC=near", "-x", "MADE_UP_PORT=works", "-x", f"MADE_UP_FILES={ports(options.folder, ranks)}",
            "-x", f"LD_PRELOAD={':'.join(made_up)}", "-x", "GPUHIER_UCX_KEEPALIVE_INTERVAL=60s"]


def switches(folder, ranks):
    """A machine whose NVSwitches reduce."""
    path = os.path.join(folder, f"switch{ranks}.topo")
    with open(path, "w", encoding="utf-8") as file:
        file.write("nvlink-generation 4\n" + "".join(f"gpu {i}\n" for i in range(ranks)) + "nvswitch 18 multicast\n")
    return path


def without_setup(path, folder):
    """A copy of a model file in which mappings and allocations cost nothing: warm-up calls would take minutes."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"^(host\.cu(?:Ipc|MemAlloc|MemFree)\w*) *=.*$", r"\1 = 0", file.read(), flags=re.MULTILINE)
    copy = os.path.join(folder, os.path.basename(path))
    with open(copy, "w", encoding="utf-8") as file:
        file.write(text)
    return copy


def run(options, collective, ranks, size, program, extra, trace=None, nodes=1):
    """One run: median and least time in modelled us of a call with double, the median of one with float, and by how much
    the emulator was late at worst."""
    dilation, warmups, calls, train = pace_of(size, ranks, 0 < len(extra), nodes)
    dilation = options.dilation or dilation
    command = [os.path.join(SRC, "test/vcluster/run"), "--nodes", str(nodes), "--timeout", "400"]
    if options.switch and not extra:
        command += ["--topology", switches(options.folder, ranks), "--mca", "coll_gpuhier_reproducible", "0"]
    else:
        command += ["--gpus", str(ranks)]
    model_file = options.model_file
    if nodes > 1:
        command += rails(options, ranks, dilation)
        model_file = options.model_without_setup
    command += ["-x", f"CUDASIM_MODEL={model_file}", "-x", f"CUDASIM_DILATION={dilation}"]
    tune = ["ipc_idle=0"] + ([options.tune] if options.tune else [])  # its seconds are real ones, and a long call takes many
    command += ["--mca", "coll_gpuhier_tune", ",".join(tune)]
    if trace is not None:
        command += ["-x", f"CUDASIM_TRACE={trace}"]
    if options.gdr is not None:
        command += ["-x", "CUDASIM_GDR=4M", "-x", f"CUDASIM_LEGACY_QUERY={options.gdr}"]
    command += extra + ["--", program, collective, str(size), str(warmups), str(calls), str(train)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.findall(r"^model_calls (?:double|float) \d+ ([\d.]+) ([\d.]+) ([\d.]+)$", done.stdout, re.MULTILINE)
    if 0 != done.returncode or 2 != len(found):
        sys.exit(f"model: {collective}, {nodes} x {ranks} ranks, {size_text(size)}: {' '.join(command)}\n{done.stdout}{done.stderr}")
    doubles, floats = (tuple(map(float, texts)) for texts in found)
    return {"time_us": doubles[0], "least_us": doubles[1], "float_us": floats[0], "float_least_us": floats[1],
            "late_us": max(doubles[2], floats[2]), "dilation": dilation}


def stock_of(folder):
    """The stock Open MPI's prefix and a program built by it, or None and why not."""
    check = subprocess.run([os.path.join(SRC, "test/peers/build-ompi5"), "--check"], capture_output=True, text=True,
                           check=False)
    if 0 != check.returncode:
        return None, "the cache has no Open MPI 5.0.7 (test/peers/build-ompi5)"
    prefix = check.stdout.strip().splitlines()[-1]
    program = os.path.join(folder, "model_calls")
    cuda = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    build = subprocess.run([os.path.join(prefix, "bin/mpicc"), "-std=gnu11", "-O2", "-isystem", f"{cuda}/include",
                            os.path.join(SRC, "test/bench/model_calls.c"), "-o", program, f"-L{cuda}/lib64", "-lcudart",
                            "-ldl"], capture_output=True, text=True, check=False)
    if 0 != build.returncode:
        return None, f"model_calls cannot be built with it: {build.stderr.strip().splitlines()[-1]}"
    return (["--stock", "--ompi", prefix, "--mca", "pml", "ob1", "--mca", "btl", "self,sm"], program), None


def plot(folder, model, rows):
    """A picture for each collective and number of ranks."""
    for collective, nodes, ranks in sorted({(row["collective"], row["nodes"], row["ranks"]) for row in rows}):
        curves = {}
        layout = f"{nodes}x{ranks}" if nodes > 1 else f"{ranks}"
        for row in rows:
            if (row["collective"], row["nodes"], row["ranks"]) == (collective, nodes, ranks):
                curves.setdefault("gpuhier", []).append((row["bytes"], row["time_us"]))
                if "stock_us" in row:
                    curves.setdefault("Open MPI 5.0.7", []).append((row["bytes"], row["stock_us"]))
                for name, us in row["nccl_us"].items():
                    curves.setdefault(name if name == "NCCL" else f"NCCL {name}", []).append((row["bytes"], us))
        titles = ", ".join(f"'-' using 1:2 with linespoints title '{name}'" for name in curves)
        data = "".join("".join(f"{x} {y}\n" for x, y in points) + "e\n" for points in curves.values())
        script = (f"set terminal svg size 900,600\nset output '{folder}/model_{model}_{collective}_{layout}.svg'\n"
                  f"set title '{collective}, modelled ({model}), {layout} ranks' noenhanced\n"
                  "set logscale xy\nset xlabel 'bytes'\nset ylabel 'modelled us'\nset key left top\nset grid\n"
                  f"plot {titles}\n{data}")
        if 0 != subprocess.run(["gnuplot"], input=script, text=True, check=False).returncode:
            sys.exit("model: gnuplot failed; is the package gnuplot-nox installed?")


def main():
    parser = argparse.ArgumentParser(prog="model.sh")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--collective", default="allreduce")
    parser.add_argument("--model", default="h100-dgx")
    parser.add_argument("--nodes", type=int, choices=(1, 2))
    parser.add_argument("--ranks")
    parser.add_argument("--sizes")
    parser.add_argument("--dilation", type=int)
    parser.add_argument("--json")
    parser.add_argument("--plot")
    parser.add_argument("--no-stock", action="store_true")
    parser.add_argument("--switch", action="store_true")
    parser.add_argument("--tune")
    parser.add_argument("--gdr", choices=("alone", "blocking"))
    options = parser.parse_args()
    options.model_file = os.path.join(SRC, "test/cudasim/models", options.model)
    if not os.path.isfile(options.model_file):
        options.model_file = os.path.abspath(options.model)
    if not os.path.isfile(options.model_file):
        known = ", ".join(sorted(os.listdir(os.path.join(SRC, "test/cudasim/models"))))
        parser.error(f"no model {options.model}; there are {known}")
    name = os.path.basename(options.model_file)
    sizes = [8, 64 * KIB] if options.quick else [8, 64 * KIB, MIB, 64 * MIB]
    if options.full:
        sizes = [8, KIB, 8 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB]
    layouts = [(1, 2)] if options.quick else [(1, 2), (1, 4), (1, 8), (2, 2)]
    if options.full:
        layouts += [(2, 4), (2, 8)]
    if options.ranks or options.nodes:
        counts = [int(text) for text in options.ranks.split(",")] if options.ranks else [2, 4, 8]
        layouts = [(options.nodes or 1, ranks) for ranks in counts]
    if options.sizes:
        sizes = [int(text) for text in options.sizes.split(",")]
    collectives = COLLECTIVES if "all" == options.collective else options.collective.split(",")
    if not set(collectives) <= set(COLLECTIVES):
        parser.error(f"no collective {options.collective}; there are {', '.join(COLLECTIVES)}, and all")
    if options.plot:
        os.makedirs(options.plot, exist_ok=True)

    rows = []
    with tempfile.TemporaryDirectory() as folder:
        options.folder = folder
        options.model_without_setup = without_setup(options.model_file, folder)
        stock, why = (None, "not asked for") if options.no_stock else stock_of(folder)
        print(f"# modelled times ({name}), not measured ones: docs/model.md.")
        print("# microseconds, median over calls of the slowest rank: of double, and in the column float of float")
        print("# size: of the longer buffer, but at least 8 bytes for each rank's block")
        print(f"# host: {INSTRUCTIONS} instructions at {INSTRUCTIONS_PER_NS} per ns, to be added: they run undilated")
        for kind, source in NCCL_SOURCE.items():
            print(f"# {kind}, measured and not modelled: {source}")
        known = "Open MPI 5.0.7's own CUDA path; it reduces on the host, which is not modelled: a lower bound"
        print("# stock: " + (known if stock else f"none, {why}"))
        heads = ("gpuhier", "least", "float", "+host", "stock", "NCCL", "symmetric", "late")
        print(f"# between nodes: a rail for each GPU, {model_figure(options.model_file, 'rail.rate'):g} GB/s each way, "
              f"{model_figure(options.model_file, 'rail.latency'):g} us")
        print(f"{'collective':<20} {'ranks':>5} {'size':>8}" + "".join(f"{head:>11}" for head in heads))
        for collective, (nodes, ranks), size in itertools.product(collectives, layouts, sizes):
            layout = f"{nodes}x{ranks}" if nodes > 1 else f"{ranks}"
            trace = None
            if options.plot:
                trace = os.path.join(os.path.abspath(options.plot), f"{name}_{collective}_{layout}_{size}.trace.json")
                if os.path.exists(trace):
                    os.remove(trace)
            row = {"modelled": True, "model": name, "collective": collective, "nodes": nodes, "ranks": ranks, "bytes": size}
            row["nccl_us"] = nccl_us(ranks, size) if 1 == nodes and "allreduce" == collective else {}
            row["nccl_source"] = NCCL_SOURCE
            row["host_us"] = INSTRUCTIONS / INSTRUCTIONS_PER_NS / 1e3
            program = os.path.join(BUILD, "test/bench/model_calls")
            row.update(run(options, collective, ranks, size, program, [], trace, nodes))
            if stock and 1 == nodes:
                row["stock_us"] = run(options, collective, ranks, size, stock[1], stock[0])["time_us"]
            rows.append(row)
            figures = [row["time_us"], row["least_us"], row["float_us"], row["host_us"], row.get("stock_us")]
            figures += [row["nccl_us"].get(kind) for kind in NCCL] + [row["late_us"]]
            texts = ["-" if figure is None else f"{figure:.1f}" for figure in figures]
            print(f"{collective:<20} {layout:>5} {size_text(size):>8}" + "".join(f"{text:>11}" for text in texts),
                  flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    if options.plot:
        plot(options.plot, name, rows)


main()
