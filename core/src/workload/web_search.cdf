# Flow sizes of a cluster for web search, in bytes, with cumulative probabilities: Alizadeh et al.,
# "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4; the points of evaluations since pFabric (2013).
0 0
10000 0.15
20000 0.2
30000 0.3
50000 0.4
80000 0.53
200000 0.6
1000000 0.7
2000000 0.8
5000000 0.9
10000000 0.97
30000000 1
