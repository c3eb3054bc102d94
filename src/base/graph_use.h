/// Whether anything that some calls recorded was run backward.
///
/// Note [Graph use]
/// Most of what batching saves is saved in a backward pass, so its estimate (Note [Worth] in
/// deferred/worth.h) counts on one only if the runs before had one. The nodes of a run's batches
/// share one of these; a pass that runs such a node says so. Who else holds it sees by the count of
/// references that no node is left which could still be run.
#pragma once
#include "base/ref.h"

namespace weft {

struct GraphUse {
    uint32_t refs = 0;
    bool ran = false;
};
inline void release(GraphUse* use) { delete use; }

}  // namespace weft
