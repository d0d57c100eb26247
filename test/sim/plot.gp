# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
#
# gnuplot -e "folder='FOLDER'" plot.gp: FOLDER/scaling.txt as FOLDER/scaling.svg, one picture a size.
set terminal svg size 1100,420 font "sans-serif,11" background "white"
set output folder.'/scaling.svg'
set logscale xy 2
set logscale y 10
set xlabel 'nodes of 8 GPUs'
set ylabel 'microseconds'
set xtics (2,8,32,128,512,2048)
set grid
set key left top font ',8' samplen 2
file = folder.'/scaling.txt'
row(size, column) = sprintf("<awk '$2 == %s { print $1, $%d }' %s", size, column, file)
set multiplot layout 1,3 title "All-reduce in simulated time: NVLink 450 GB/s, 50 GB/s a rail"
do for [panel = 1:3] {
    size = word("65536 16777216 1073741824", panel)
    set title word("64KiB 16MiB 1GiB", panel)
    plot row(size, 5) using 1:2 with linespoints title 'flat ring', \
         row(size, 6) using 1:2 with linespoints title 'double tree', \
         row(size, 4) using 1:2 with linespoints lw 2 title 'gpuhier', \
         row(size, 7) using 1:2 with linespoints lw 2 title 'gpuhier, slices of 4 MiB', \
         row(size, 3) using 1:2 with lines dt 2 lc 'black' title 'lower bound'
}
unset multiplot
