"""`python -m shardpack`: the program itself."""

import os
import sys

from ._program import program

path = program()
os.execv(path, [path, *sys.argv[1:]])
