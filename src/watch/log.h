/// What ran, in the order in which it began, as flat tables: what weft/see shows.
///
/// Note [Seen values]
/// A value is what one event made, or what was there before. A tensor bears the number of its value,
/// and of the log that gave it (`TensorImpl::seen`). One that comes without (of a batch's block, a
/// detached one, a Parameter over a result) has the value that its storage got last; and one whose
/// storage was written since through another one gets a value anew, of the event that wrote. No value
/// is held: only the tables grow, by some 250 bytes for a call. A log that nobody wants whole begins anew
/// where nothing is open.
#pragma once
#include <unordered_map>
#include <vector>

#include "autograd/node.h"
#include "base/clock.h"
#include "ops/watch.h"
#include "watch/address_map.h"
#include "watch/rows.h"
#include "watch/statistics.h"
#include "watch/stop.h"

namespace weft::watch {

struct Event {
    ops::SpanKind kind;
    bool failed = false;
    bool in_place = false;
    bool backward = false;  ///< a pass of backward, or within one
    uint32_t inputs = 0, outputs = 0;
    int32_t parent;                ///< the event that it is a part of; -1: none
    int32_t module = -1;           ///< the call of a module that it is, or is in; -1: none
    int32_t name = -1;             ///< in `names`; a call has its op's when someone asks
    int32_t site = -1;             ///< in `sites`
    uint32_t operands = 0;         ///< in `operands`: the inputs, then the outputs
    SaveMask saved = 0;            ///< of a call: what its node saved
    int32_t stack = -1;            ///< who called it, of a log's own numbers; -1: not known
    const Op* op = nullptr;        ///< of a call
    uint64_t node = 0;             ///< that it made, or runs: its sequence number and one
    int64_t began = 0, ended = 0;  ///< ticks; 0 if times were not asked for
    int64_t bytes_before = 0,
            bytes = 0;  ///< in live storages, of the process: at its begin, its end
};

struct Seen {
    int32_t event;   ///< that made it; -1: it was there
    int32_t memory;  ///< in `memories`; -1: a layout without one
    uint32_t dims;   ///< in `dims`: its sizes, then its strides unless they are row-major
    uint8_t ndim;
    DType dtype;
    uint8_t marks;  ///< of Mark
};
/// kInside: a call inside of the event has made it.
enum Mark : uint8_t { kRequiresGrad = 1, kView = 2, kStrided = 4, kInside = 8 };

/// A storage.
struct Memory {
    const Storage* storage;
    int64_t bytes;
    int32_t event;       ///< that made it; -1: none did
    int32_t since;       ///< the last event that had begun when it was first seen
    int32_t freed = -1;  ///< the last event that had begun when it went; -1: it is alive
    int32_t last;        ///< the value that was written last
};

/// A value that was there, and where the tensor was: by that its name may be found.
struct Found {
    int32_t value;
    const void* tensor;
};

/// How many floating-point operations a call was, of ops that count them (`Op::flops`).
struct Flops {
    int32_t event;
    int64_t count;
};

struct Options {
    bool times = false;
    int64_t sample = 0;  ///< elements of each result that are looked at, at most; 0: none
    size_t most = 0;     ///< events after which it may begin anew
    bool stacks = false;
    bool operator==(const Options&) const = default;
};

/// A call that failed: of an op, or of a function of the package by its name.
struct Failed {
    const Op* op;
    std::string_view name;
    std::span<const Tensor> inputs;
    bool in_place;
};

class Log : public ops::Watcher {
public:
    Log() = default;
    virtual ~Log() { finish(); }
    Log(const Log&) = delete;
    /// Those under way, on all threads.
    static std::vector<Log*>& listening();

    int64_t before(const Call& c) override;
    void after(int64_t open, Call& c) override;
    int64_t open(ops::SpanKind kind, std::string_view name, const void* object) override;
    void give(int64_t open, std::span<const Tensor> inputs) override;
    void take(int64_t open, std::span<const Tensor> inputs,
              std::span<const Tensor> outputs) override;
    void close(int64_t open, bool failed) override;
    void released(const Storage* storage) override;

    /// From now on it hears of the ends of storages, on whatever thread.
    void listen() { listening().push_back(this); }
    /// Nothing that begins from now on is heard of, nor the end of what is open.
    void finish();
    bool finished() const { return finished_; }

    /// The nodes behind `roots`, as the calls that made them, in the order of recording.
    void add_nodes(const std::vector<Tensor>& roots);
    /// A call that failed, behind the nodes of its operands: the nearest `most`.
    void add_failed(const Failed& failed, size_t most);

    Rows<Event> events;
    Rows<Seen> values;
    Rows<int32_t> operands;  ///< in `values`; -1: none was given
    Rows<int64_t> dims;
    Rows<Memory> memories;
    Rows<Found> found;
    Rows<Statistics> statistics;
    Rows<Flops> flops;
    std::vector<std::string> names;
    std::vector<const void*> objects;  ///< by name: the module, or null
    std::vector<Site> sites;

    /// The number of the value that `t` was last seen with; -1: of none.
    int32_t seen(const Tensor& t) const { return own(static_cast<int64_t>(t.impl()->seen)); }
    /// Gives calls the names of their ops, which they do without as long as nobody asks.
    void name_calls();
    /// Seconds for a tick, by the clock, since the log began.
    double seconds_per_tick() const;
    /// For as long as somebody wants them; of several, what gives each what it wants.
    void want(const Options& options);
    void want_no_more(const Options& options);
    bool is_wanted() const { return !wanted_.empty(); }

    void add_stop(const Ref<Stop>& stop) {
        stops_.push_back(stop);
        whole_inputs = true;
    }
    void remove_stop(const Ref<Stop>& stop);
    /// The next result is stopped at by `stop`, whatever it is.
    void stop_at_next(const Ref<Stop>& stop) { next_ = stop; }
    const std::vector<Ref<Stop>>& stops() const { return stops_; }

protected:
    /// A result is one to stop at, but for what remains to be asked: calls a debugger; may throw.
    /// Returns whether it has.
    virtual bool stopped(Stop& stop, int32_t event, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs) = 0;
    /// The number of the lines that the program is at: one calls the next.
    virtual int32_t stack_here() = 0;
    /// The tables begin anew.
    virtual void forget();

private:
    int32_t begin(ops::SpanKind kind);
    void end(int32_t number, bool failed);
    void end_outer(int32_t number);
    /// The number of a name; `key` stands for it, or if null its text.
    int32_t name_of(const void* key, std::string_view name, const void* object = nullptr);
    int32_t number_of(Site site);
    /// The number of the value that `t` holds now, which may be one not seen before.
    int32_t value_of(const Tensor& t);
    int32_t add(const Tensor& t, int32_t event, int32_t memory, bool view);
    int32_t add(DType dtype, DimSpan shape, int32_t event);
    using Results = std::unordered_map<const Node*, int32_t>;  ///< of each node, the first value
    Results add_graph(const std::vector<Tensor>& roots, size_t most);
    void add_node(const Node& node, Results& results);
    int32_t value_at(const Edge& edge, Results& results);
    /// That made the value that the tensor was last seen with; -1: none did.
    int32_t event_of(const Tensor& t) const;
    bool is_inside(const Tensor& t) const;
    void note_node(int32_t event, const Node& node);
    int32_t module_of(const Node& node) const;
    bool is_written(const Tensor& t) const;
    const Statistics* statistics_at(int32_t value) const;
    int32_t memory_of(const Tensor& t, int32_t event);
    int32_t add_output(const Tensor& t, int32_t event, bool view, bool wrote);
    /// The operands of the event stand together at the end, for its results to follow.
    Event& gather_operands(int32_t number);

    static int64_t ticks();
    static inline uint64_t logs = 0;

    void choose_options();
    void note_written(int32_t event, const Tensor& dest);
    void check_stops(int32_t event, std::span<const Tensor> inputs,
                     std::span<const Tensor> outputs);
    /// Numbers that others keep bear the log's own; -1: not of this one.
    int64_t mine(int32_t event) const {
        return static_cast<int64_t>(number_ << 32 | static_cast<uint32_t>(event));
    }
    int32_t own(int64_t number) const {
        return static_cast<uint64_t>(number) >> 32 == number_ ? static_cast<int32_t>(number) : -1;
    }

    Options options_;
    std::vector<Options> wanted_;
    std::vector<Ref<Stop>> stops_;
    Ref<Stop> next_;
    std::unordered_map<int32_t, Extremes> written_;  ///< of calls that write, what was there before
    bool finished_ = false;
    uint64_t number_ = ++logs;
    AddressMap storages_, named_, lines_;
    struct MadeIn {
        uint64_t node;
        int32_t module;
    };
    Rows<MadeIn>
        made_in_;  ///< of nodes in their order: the calls of modules that they were made in
    std::unordered_map<std::string, int32_t> texts_;
    size_t called_ = 0;  ///< events whose calls have names
    const int64_t first_tick_ = ticks();
    const double first_second_ = seconds();
};

/// Installs what the layers before ask for (tensor/storage.h).
void install();

}  // namespace weft::watch
