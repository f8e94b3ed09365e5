// One phase on one rank. Whatever happens, this rank leaves an exit record that says how far it
// came and in what, and lets the others go: a phase ends with a barrier, so that a rank that
// succeeded still hears of one that did not.
#include <cxxabi.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <typeinfo>

#include "harness/adapters/reference/defect.h"
#include "harness/adapters/reference/rank_fault.h"
#include "harness/adapters/reference/reference.h"
#include "harness/ranks/thread_communicator.h"
#include "harness/state/assembly.h"
#include "harness/state/error.h"
#include "harness/state/exit_record.h"
#include "kernels/float_environment.h"

namespace resumecheck {
namespace {

bool compared(const Settings& settings, std::int64_t step) {
  return step == 0 || step >= settings.save_after - 1;
}

std::string type_name(const std::exception& failure) {
  if (dynamic_cast<const PeerFailed*>(&failure) != nullptr) return "PeerFailed";
  int status = 0;
  char* name = abi::__cxa_demangle(typeid(failure).name(), nullptr, nullptr, &status);
  const std::string text = name != nullptr ? name : "exception";
  std::free(name);
  return text;
}

std::vector<std::string> defects_among(const std::vector<FaultSpec>& faults) {
  std::vector<std::string> names;
  for (const FaultSpec& fault : faults) {
    if (find_defect(fault.name) != nullptr) names.push_back(fault.name);
  }
  return names;
}

// What a resume is built with: the checkpoint has the right values, and a load that leaves them out
// must not be right by accident.
Settings with_another_optimizer(Settings settings) {
  Settings::Optimizer& optimizer = settings.optimizer;
  optimizer.lr *= 2;
  optimizer.beta1 /= 2;
  optimizer.beta2 /= 2;
  optimizer.eps *= 2;
  optimizer.weight_decay = 2 * optimizer.weight_decay + 0.5;
  for (std::size_t i = 0; i < optimizer.groups.size(); ++i) {
    Settings::Optimizer::Group& group = optimizer.groups[i];
    group.lr *= 2;
    group.weight_decay = 2 * group.weight_decay + 0.5;
    const bool last = i + 1 == optimizer.groups.size();
    group.parameters = last ? std::vector<std::string>() : optimizer.groups[i + 1].parameters;
  }
  return settings;
}

class Phase {
 public:
  Phase(const PhaseRequest& request, Communicator& ranks,
        std::shared_ptr<const Arithmetic> arithmetic)
      : request_(request), ranks_(ranks), arithmetic_(std::move(arithmetic)) {}

  bool run() {
    const auto begin = std::chrono::steady_clock::now();
    record_.transport = ranks_.transport();
    try {
      kernels::check_float_environment();
      request_.phase == "save_run" ? save_run() : resume_run();
      ranks_.barrier();
      record_.ok = true;
    } catch (const std::exception& failure) {
      record_.exception = {type_name(failure), failure.what(), ""};
      ranks_.leave(failure.what());
    }
    record_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    write_exit_record(request_.records, ranks_.rank(), record_);
    return record_.ok;
  }

 private:
  void save_run() {
    const Settings& settings = request_.settings;
    enter("save_run step 0");
    ReferenceRun run = build(settings, request_.init_seed);
    write_state(run);
    for (std::int64_t step = 1; step <= settings.train_until; ++step) {
      enter("save_run step " + std::to_string(step));
      take_step(run);
      if (step != settings.save_after) continue;
      enter("save");
      if (!in_memory()) run.save(request_.checkpoint);
    }
  }

  void resume_run() {
    const Settings& settings = request_.settings;
    enter("load");
    ReferenceRun run = build(with_another_optimizer(settings), request_.init_seed);
    in_memory() ? load_from_a_run_that_goes_on(run) : run.load(request_.checkpoint);
    if (run.steps_done() != settings.save_after) {
      throw Error(Error::Kind::subject, request_.checkpoint.string(),
                  "was saved after step " + std::to_string(run.steps_done()) +
                      ", the scenario saves after step " + std::to_string(settings.save_after),
                  "load the checkpoint of the same scenario");
    }
    record_.step = run.steps_done();
    write_state(run);
    for (std::int64_t step = settings.save_after + 1; step <= settings.train_until; ++step) {
      enter("step " + std::to_string(step));
      take_step(run);
    }
    if (request_.next_checkpoint.empty()) return;
    enter("save");
    run.save(request_.next_checkpoint);
  }

  bool in_memory() const { return request_.settings.save_format == "state_dict"; }

  // A state dict holds the very tensors of its run, so that run is trained here; and it takes one
  // more step, so that memory which is still shared with it shows.
  void load_from_a_run_that_goes_on(ReferenceRun& run) const {
    const Settings& settings = request_.settings;
    ReferenceRun source = build(settings, settings.seed);
    for (std::int64_t step = 1; step <= settings.save_after; ++step) source.step();
    run.load_from(source);
    source.step();
  }

  ReferenceRun build(const Settings& settings, std::uint64_t init_seed) const {
    return {settings,
            init_seed,
            request_.mesh,
            ranks_,
            defects_among(request_.faults),
            arithmetic_for_device()};
  }

  std::shared_ptr<const Arithmetic> arithmetic_for_device() const {
    if (arithmetic_) return arithmetic_;
    if (request_.device == "cpu") return host_arithmetic();
    throw Error(Error::Kind::harness, "device " + request_.device,
                "this program computes on the CPU only", "use resumecheck-mpi");
  }

  void enter(const std::string& place) {
    record_.phase = place;
    write_progress(request_.records, ranks_.rank(), place);
    suffer_faults(request_.faults, ranks_.rank(), place);
  }

  void take_step(ReferenceRun& run) {
    run.step();
    record_.step = run.steps_done();
    write_state(run);
  }

  void write_state(const ReferenceRun& run) const {
    if (!compared(request_.settings, run.steps_done())) return;
    write_rank_state(step_folder(request_.states, run.steps_done()), run.state());
  }

  const PhaseRequest& request_;
  Communicator& ranks_;
  std::shared_ptr<const Arithmetic> arithmetic_;
  ExitRecord record_;
};

}  // namespace

bool run_reference_phase(const PhaseRequest& request, Communicator& ranks,
                         std::shared_ptr<const Arithmetic> arithmetic) {
  return Phase(request, ranks, std::move(arithmetic)).run();
}

std::map<std::int64_t, LogicalState> reference_states(
    const Settings& settings, std::shared_ptr<const Arithmetic> arithmetic) {
  kernels::check_float_environment();
  const auto alone = single_rank();
  ReferenceRun run(settings, settings.seed, Mesh::parse("dp1"), *alone, {}, std::move(arithmetic));
  std::map<std::int64_t, LogicalState> states;
  for (std::int64_t step = 0;; ++step) {
    if (compared(settings, step)) states[step] = assemble({run.state()}).assembled.state;
    if (step == settings.train_until) return states;
    run.step();
  }
}

}  // namespace resumecheck
