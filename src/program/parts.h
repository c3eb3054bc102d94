/// Which nodes of the graph stand for a segment's steps, and what they keep.
///
/// Note [Parts]
/// A user holds a segment's outputs: tensors with a grad_fn, on which he may hang hooks. What a hook sees
/// must be the whole gradient. So an output that later steps of the segment use ends a part: there is a
/// node for each part, and gradients go from a later part to the output's own node, as from any user of
/// it. A step is of the first part that it can be of; most segments have one. A value inside of a part
/// that a later part reads is an output of its node too, one that no tensor bears.
///
/// Outputs that are views are made by their calls, from the tensors that they are views of, in each run:
/// they are views to writes and to the graph, as in eager.
#pragma once
#include "program/segment.h"

namespace weft::program {

/// One node's share.
struct SegmentPart {
    std::vector<int32_t> steps;    ///< whose gradient rules it runs, in order
    std::vector<int32_t> outputs;  ///< values
    std::vector<int32_t> edges;    ///< values: where gradients go
    std::vector<int32_t> saved;    ///< of values with tensors, those that rules read
    std::vector<int32_t> inner;    ///< of others
    std::vector<int32_t> bases;    ///< of `saved`, those that others are made again of
    bool keeps = false;            ///< some of `inner` are kept
};

struct Parts {
    explicit Parts(const Segment& segment);

    /// What comes into being in a run, in order.
    struct Event {
        enum class Kind : uint8_t { Node, View, Detach } kind;
        int32_t which;  ///< the part; the step; the value
    };
    std::vector<SegmentPart> all;
    std::vector<Event> events;
    std::vector<int32_t> made;  ///< values that the forward plan gives as tensors
    std::vector<int32_t> kept;  ///< values that it leaves for backward
    /// For each value the part whose inner gradients it has; -1: it has none, or a tensor has them.
    std::vector<int32_t> part_of;
    std::vector<uint8_t> is_held;  ///< values that are tensors for the user
    /// Values that backward makes again, by their step: of a few instructions, from what is there.
    std::vector<uint8_t> is_remade;
};

}  // namespace weft::program
