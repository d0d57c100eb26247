# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gnuplot -c test/bench/plot.gp TABLE FOLDER: draws the table of figures (docs/performance-full.md) as
# FOLDER/performance-large.svg and FOLDER/performance-short.svg.
table = ARG1
folder = ARG2

# Rows whose title begins as told and matches a pattern, as lines of "bytes value". The last "NUMBER UNIT" of a title is the
# length of the message.
rows(begin, pattern) = sprintf("<awk -F '|' 'index($2, \" %s\") == 1 && $2 ~ /%s/ { \
    match($2, /[0-9]+ ([KM]i)?B( |:|$)/); split(substr($2, RSTART, RLENGTH), part, \" \"); \
    print part[1] * (part[2] ~ /^K/ ? 1024 : part[2] ~ /^M/ ? 1048576 : 1), $3 }' %s", begin, pattern, table)

# The same of several nodes at one rate, as lines of "layout value".
layouts(rate, pattern) = sprintf("<awk -F '|' '$2 ~ / of %s, .*%s/ { split($2, word, \" \"); print word[1], $3 }' %s", rate, pattern, table)

set terminal svg size 1000,380 font "sans,11" background "white"
set grid
set xlabel "message"

set output folder.'/performance-large.svg'
set multiplot layout 1,2
set title "One node: speed relative to the CUDA path of Open MPI 5.0.7"
set ylabel "time of Open MPI / time of gpuhier"
set logscale x 2
set xtics ("8 B" 8, "256 B" 256, "8 KiB" 8192, "256 KiB" 262144, "8 MiB" 8388608, "256 MiB" 268435456)
set xrange [4:536870912]
set yrange [0:14]
set key left top
short(n) = rows("1 node x ".n." ranks: gpuhier / Open MPI", "upper bound")
long(n) = rows("1 node x ".n." ranks: Open MPI", "path . gpuhier")
plot short("4") using 1:(1 / $2) with linespoints lc 1 lw 2 pt 7 ps 0.5 title '4 ranks', \
     long("4") using 1:2 with linespoints lc 1 lw 2 pt 7 ps 0.5 notitle, \
     short("8") using 1:(1 / $2) with linespoints lc 2 lw 2 pt 7 ps 0.5 title '8 ranks', \
     long("8") using 1:2 with linespoints lc 2 lw 2 pt 7 ps 0.5 notitle, \
     1 with lines dt 2 lc 'black' title 'equal'
set title "Several nodes, 64 MiB: share of the wire's rate"
set ylabel "time that the wire needs / time of the call"
set xlabel "ranks on each node; four shaped rails for each node"
unset logscale x
set xtics auto
set xrange [-0.6:3.6]
set yrange [0:1.3]
set ytics 0.2
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.7 border -1
plot layouts("100 Mbit.s a node", "wire") using 2:xtic(1) lc 1 title '100 Mbit/s a rail: the wire is the limit', \
     layouts("500 Mbit.s a node", "wire") using 2 lc 2 title '500 Mbit/s a rail: the two processor cores are', \
     0.92 with lines dt 2 lc 'black' title 'goal'
unset multiplot

set output folder.'/performance-short.svg'
set multiplot layout 1,2
set logscale x 2
set xtics ("8 B" 8, "128 B" 128, "2 KiB" 2048, "32 KiB" 32768, "512 KiB" 524288)
set xlabel "message"
set ylabel "time of gpuhier / time of stock (upper bound)"
set title "Device buffers: against host copies made by hand"
set xrange [6:90000]
set yrange [0:1.8]
set key right top
against(layout, what) = rows(layout.", ".what.":", "upper bound")
plot against("1 node x 2 ranks", "device buffers") using 1:2 with linespoints lc 1 lw 2 pt 7 ps 0.5 title '1 node x 2 ranks', \
     against("1 node x 4 ranks", "device buffers") using 1:2 with linespoints lc 2 lw 2 pt 7 ps 0.5 title '1 node x 4 ranks', \
     against("2 nodes x 1 rank", "device buffers") using 1:2 with linespoints lc 4 lw 2 pt 7 ps 0.5 title '2 nodes x 1 rank', \
     1.05 with lines dt 2 lc 'black' title 'goal'
set title "Host buffers: with the component against without it"
set xrange [6:6000000]
set yrange [0.95:1.12]
set ytics 0.05
plot against("1 node x 2 ranks", "host buffers") using 1:2 with linespoints lc 1 lw 2 pt 7 ps 0.5 title '1 node x 2 ranks', \
     against("2 nodes x 1 rank", "host buffers") using 1:2 with linespoints lc 4 lw 2 pt 7 ps 0.5 title '2 nodes x 1 rank', \
     1.05 with lines dt 2 lc 'black' title 'goal'
unset multiplot
