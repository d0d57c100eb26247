# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the figures of suite_figures.py, suite_family.py and suite_costs.py, prints and writes them. Started by suite.sh, which says how.

Owns: the command line, the order of figures, the output. The means of measuring are in suite_measure.py.
"""

import argparse
import datetime
import fnmatch
import json
import os
import platform
import sys

import suite_costs
import suite_family
import suite_figures
import suite_measure

MARK = "<!-- figures: test/bench/suite.sh --docs writes what follows, up to the next mark -->"
MARK_END = "<!-- end of figures -->"


def machine():
    """One line about this machine, without its name."""
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{len(os.sched_getaffinity(0))} cores of {model}, Linux {platform.release().split('-')[0]}"


def number(value):
    """A value in as many digits as its size deserves."""
    if value is None:
        return "-"
    if isinstance(value, bool) or float(value).is_integer():
        return str(int(value))
    return f"{value:.3g}" if abs(value) < 10 else f"{value:.4g}"


def verdict(figure):
    if figure["ok"] is None:
        return "not measured: " + figure["why"]
    if figure["goal"] is None:
        return "for information"
    return "met" if figure["ok"] else "MISSED"


def print_table(figures):
    width = max(len(figure["name"]) for figure in figures)
    print(f"\n{'figure':{width}}  {'value':>9}  {'goal':>9}")
    for figure in figures:
        goal = figure["sense"] + " " + number(figure["goal"]) if figure["goal"] is not None else "-"
        print(f"{figure['name']:{width}}  {number(figure['value']):>9}  {goal:>9}  {verdict(figure)}")
    measured = [figure for figure in figures if figure["ok"] is not None]
    judged = [figure for figure in measured if figure["goal"] is not None]
    met = sum(1 for figure in judged if figure["ok"])
    print(f"\n{len(figures)} figures, {len(measured)} measured, {met} of {len(judged)} met their goals")


def docs_text(figures, quick, load):
    today = datetime.date.today().isoformat()
    lines = [
        MARK,
        "",
        f"Measured on {today}{' (--quick)' if quick else ''}: {machine()}.",
        f"Emulated GPUs and nodes: ratios mean something, times do not. Load of the machine before the first figure: {load:.1f}.",
        "",
        "| figure | value | goal | |",
        "|---|---|---|---|",
    ]
    for figure in figures:
        goal = figure["sense"] + " " + number(figure["goal"]) if figure["goal"] is not None else "-"
        lines.append(f"| {figure['title']} | {number(figure['value'])} | {goal} | {verdict(figure)} |")
    return "\n".join(lines + ["", MARK_END])


def write_docs(path, figures, quick, load):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.find(MARK), text.find(MARK_END)
    if begin < 0 or end < begin:
        sys.exit(f"suite: {path} has no marks between which figures belong")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:begin] + docs_text(figures, quick, load) + text[end + len(MARK_END):])


def arguments():
    parser = argparse.ArgumentParser(prog="suite.sh")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", action="append", metavar="GLOB", default=[])
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="DIR")
    parser.add_argument("--docs", metavar="FILE")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    wanted = [
        function
        for function in suite_figures.FIGURES + suite_family.FIGURES + suite_costs.FIGURES
        if not options.only or any(fnmatch.fnmatch(function.name, glob) for glob in options.only)
    ]
    if options.list:
        print("\n".join(function.name for function in wanted))
        return 0
    if not wanted:
        print("suite: no figure has such a name (see --list)", file=sys.stderr)
        return 2
    if options.plot:
        os.makedirs(options.plot, exist_ok=True)
    load = os.getloadavg()[0]
    suite = suite_measure.Suite(quick=options.quick, plots=options.plot)
    figures, failed = [], 0
    for function in wanted:
        print(f"suite: {function.name}", flush=True)
        try:
            figures += function(suite)
        except suite_measure.Failure as failure:
            failed += 1
            print(f"suite: {function.name} could not be measured: {failure}", file=sys.stderr)
            figures.append(suite_measure.missing(function.name, function.name, str(failure)))
    print_table(figures)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
    if options.docs:
        write_docs(options.docs, figures, options.quick, load)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
