"""Every claim with a number, weft beside PyTorch: one table."""

import attention
import batching_costs
import cnn
import compiled
import deployed
import dynamic_batching
import gpt
import gru_cells
import harness
import import_time
import installed_size
import layer_norm_softmax
import lstm
import matmul
import memory
import mlp
import nested
import page
import pointwise
import provenance
import small_ops
import tree_lstm
import two_threads
import vmap
import watching
import weft_run
import zoo

SCRIPTS = [
    small_ops, mlp, tree_lstm, dynamic_batching, batching_costs, gru_cells, gpt, cnn, matmul,
    pointwise, layer_norm_softmax, attention, nested, lstm, vmap, two_threads, memory, provenance,
    watching, import_time, installed_size, compiled, deployed, weft_run, zoo,
]  # fmt: skip

if __name__ == "__main__":
    harness.main([row for script in SCRIPTS for row in script.ROWS], __doc__, page.text)
