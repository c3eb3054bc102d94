#include "autograd/node.h"

#include "autograd/anomaly.h"
#include "base/counter.h"

namespace weft {

/// Note [No recursion]
/// A node's last reference may be held by another node's edge, so dropping a chain of 10^6 nodes
/// from within a destructor would recurse 10^6 deep. Dead nodes are queued, and the outermost
/// release frees them in a loop.
class ReleaseQueue {
public:
    static void push(Node* node) {
        if (releasing_) {
            node->next_dead = dead_;
            dead_ = node;
            return;
        }
        releasing_ = true;
        node->deallocate();
        while (Node* next = dead_) {
            dead_ = next->next_dead;
            next->deallocate();
        }
        releasing_ = false;
    }

private:
    static inline thread_local bool releasing_ = false;
    static inline thread_local Node* dead_ = nullptr;
};

namespace {

Counter made, gone;

}  // namespace

Node::Node() : sequence(made.next()) {
    kind = kNodeSlot;
    if (anomaly::on) [[unlikely]]
        hooks().trace = anomaly::trace();
}

Node::~Node() { gone.next(); }

uint64_t nodes_made() { return made.count(); }
uint64_t nodes_alive() { return made.count() - gone.count(); }

void Node::destroy() { ReleaseQueue::push(this); }

void LooseNode::set_edges(std::vector<Edge> edges) {
    edge_store_ = std::move(edges);
    edges_ = edge_store_.data();
    edge_count_ = static_cast<int>(edge_store_.size());
}

void LooseNode::set_results(const std::vector<Tensor>& results) {
    result_store_ = std::make_unique<ResultInfo[]>(results.size());
    for (size_t k = 0; k < results.size(); ++k)
        if (results[k].defined()) result_store_[k].set(results[k]);
    results_ = result_store_.get();
    output_count_ = static_cast<int>(results.size());
}

std::string describe(const Node& node) {
    return text(node.name(), ", made at ", node.site.describe());
}

}  // namespace weft
