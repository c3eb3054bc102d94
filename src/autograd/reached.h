/// Which gradients of zeros are gradients.
///
/// Note [Reached]
/// A node of a batch is that of the calls of many examples. A pass from one example's loss runs it for
/// all of them, with zeros where the loop's pass would not come: there hooks are not called, leaves
/// get no gradient, and a user's backward does not run. Whether zeros are a gradient or stand for none
/// is told by the way they came: rows of a batch come from the same rows, a piece from where it was
/// packed to, an element of a part of a call from that part. It is asked only where it shows, and only
/// if all that arrived is zeros. What is in doubt is reached.
///
/// The node of a compiled part stands for many calls too (program/gradient.h): what has no gradient after
/// it has run is reached only if an output that is leads there.
#pragma once
#include <set>
#include <tuple>
#include <unordered_map>

#include "autograd/task.h"
#include "ops/write.h"

namespace weft {

/// Whether every element is zero; false where there is none, and for a value that waits.
bool all_zeros(const Tensor& t);

class Reached {
public:
    explicit Reached(const TaskList& tasks) : tasks_(tasks) {}
    /// A gradient is given for output `root.output` of `root.node`.
    void add_root(const Edge& root) { roots_.push_back({root.node.get(), root.output, {}}); }
    /// Whether a root's gradient comes to these elements of output `k` of `node`.
    bool part(const Node& node, uint32_t k, ops::Span elements);
    /// Whether one comes to any output of `node`.
    bool any(const Node& node);

private:
    struct Place {
        const Node* node;
        uint32_t output;
        ops::Span elements;
    };
    struct User {
        const Node* node;
        int edge;
    };
    void find_users();
    bool is_root(const Place& place) const;
    /// Adds those parts of the outputs of `user` to `places_` whose gradients `elements` of its edge
    /// are made of.
    void follow(const User& user, ops::Span elements);
    void visit(const Node* node, uint32_t k, ops::Span elements);

    const TaskList& tasks_;
    std::vector<Place> roots_;
    std::unordered_map<const Node*, std::vector<User>> users_;
    std::set<std::tuple<const Node*, uint32_t, int64_t, int64_t>> unreached_;
    std::vector<Place> places_;  ///< to be looked at
};

}  // namespace weft
