# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gnuplot -c test/bench/plot.gp TABLE FOLDER: draws the table of figures (docs/performance-full.md) as
# FOLDER/performance-large.svg and FOLDER/performance-short.svg.
table = ARG1
folder = ARG2

# Rows whose title begins as told and matches a pattern, as lines of "bytes value". The last "NUMBER UNIT" of a title is the
# length of the message.
rows(begin, pattern) = sprintf("<awk -F '|' 'index($2, \" %s\") == 1 && $2 ~ /%s/ && \
    match($2, /[0-9]+ ([KM]i)?B( |:|$)/) { split(substr($2, RSTART, RLENGTH), part, \" \"); \
    print part[1] * (part[2] ~ /^K/ ? 1024 : part[2] ~ /^M/ ? 1048576 : 1), $3 }' %s", begin, pattern, table)

# The same of several nodes at one rate, as lines of "layout value".
layouts(rate, pattern) = sprintf("<awk -F '|' '$2 ~ / of %s, .*%s/ { split($2, word, \" \"); print word[1], $3 }' %s", rate, pattern, table)

# All but the bars are speeds: how many times as fast as something else, 1 being equal. Legends stand below the pictures.
set terminal svg noenhanced size 1000,430 font "sans-serif,11" background "white"
set grid
set bmargin 6
set key bmargin center horizontal samplen 2
set style line 1 lc rgb "#1f77b4" lw 2 pt 7 ps 0.5
set style line 2 lc rgb "#d9700a" lw 2 pt 7 ps 0.5
set style line 3 lc rgb "#2b9348" lw 2 pt 7 ps 0.5

set output folder.'/performance-large.svg'
set multiplot layout 1,2
set title "One node: times as fast as the CUDA path of Open MPI 5.0.7"
set xlabel "message, sum of double"
set logscale xy 2
set xtics ("8 B" 8, "256 B" 256, "8 KiB" 8192, "256 KiB" 262144, "8 MiB" 8388608, "256 MiB" 268435456)
set xrange [4:536870912]
set yrange [0.5:32]
set ytics ("0.5" 0.5, "1" 1, "2" 2, "4" 4, "8" 8, "16" 16, "32" 32)
short(n) = rows("1 node x ".n." ranks: gpuhier / Open MPI", "upper bound")
long(n) = rows("1 node x ".n." ranks: Open MPI", "path . gpuhier")
plot short("4") using 1:(1 / $2) with linespoints ls 1 title '4 ranks', \
     long("4") using 1:2 with linespoints ls 1 notitle, \
     short("8") using 1:(1 / $2) with linespoints ls 2 title '8 ranks', \
     long("8") using 1:2 with linespoints ls 2 notitle, \
     1 with lines dt 2 lc 'black' title 'equally fast'
set title "Several nodes, 64 MiB: share of the wire's rate"
set xlabel "ranks on each node; four shaped rails for each node"
unset logscale
set xtics auto
set xrange [-0.6:3.6]
set yrange [0:100]
set ytics 20
set format y "%.0f %%"
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.7 border -1
plot layouts("100 Mbit.s a node", "wire") using (100 * $2):xtic(1) ls 1 title '100 Mbit/s a rail', \
     layouts("500 Mbit.s a node", "wire") using (100 * $2) ls 2 title '500 Mbit/s a rail', \
     92 with lines dt 2 lc 'black' title 'goal'
unset multiplot
set format y

set output folder.'/performance-short.svg'
set multiplot layout 1,2
set logscale x 2
set xtics ("8 B" 8, "128 B" 128, "2 KiB" 2048, "32 KiB" 32768, "512 KiB" 524288)
set xlabel "message"
set title "GPU buffers: times as fast as host copies made by hand (at least)"
set xrange [6:90000]
set yrange [0:3]
set ytics 0.5
against(layout, what) = rows(layout.", ".what.":", "upper bound")
plot against("1 node x 2 ranks", "device buffers") using 1:(1 / $2) with linespoints ls 1 title '1 node x 2 ranks', \
     against("1 node x 4 ranks", "device buffers") using 1:(1 / $2) with linespoints ls 2 title '1 node x 4 ranks', \
     against("2 nodes x 1 rank", "device buffers") using 1:(1 / $2) with linespoints ls 3 title '2 nodes x 1 rank', \
     1 / 1.05 with lines dt 2 lc 'black' title 'goal'
set title "Host buffers: times as fast as without gpuhier (at least)"
set xlabel "message"
set xrange [6:6000000]
set yrange [0.9:1.05]
set ytics 0.05
plot against("1 node x 2 ranks", "host buffers") using 1:(1 / $2) with linespoints ls 1 title '1 node x 2 ranks', \
     against("2 nodes x 1 rank", "host buffers") using 1:(1 / $2) with linespoints ls 3 title '2 nodes x 1 rank', \
     1 / 1.05 with lines dt 2 lc 'black' title 'goal'
unset multiplot
