// The reference under the same six verbs as every adapter: build, step, save, load, state on any
// dp/rep mesh. One Run is one rank. Nothing here compares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/phases/phase_request.h"
#include "harness/ranks/communicator.h"
#include "harness/state/state_file.h"

namespace resumecheck {

// Deliberate mistakes in save and load, by the names that [[fault]] and --defect use (defect.h).
const std::vector<std::string>& defect_names();

class ReferenceRun {
 public:
  // Initial values from init_seed; gradients from settings.seed. defects: names; unknown ones are
  // Error(usage), as are an optimizer, profile or dtype that the reference does not have.
  ReferenceRun(const Settings& settings, std::uint64_t init_seed, const Mesh& mesh,
               Communicator& ranks, const std::vector<std::string>& defects,
               std::shared_ptr<const Arithmetic> arithmetic = host_arithmetic());
  ~ReferenceRun();
  ReferenceRun(ReferenceRun&&) noexcept;
  ReferenceRun& operator=(ReferenceRun&&) = delete;
  void step();  // one step; injected order-free gradients
  void save(const std::filesystem::path& folder)
      const;  // folder/state_rank<k>.safetensors: the state file is the format
  void load(
      const std::filesystem::path& folder);  // of any mesh; Error(subject) naming file and place
  // Takes the state of another run of the same mesh and this process, as a state dict in memory
  // does; Error(usage) for another mesh.
  void load_from(const ReferenceRun& source);
  RankState state() const;
  std::int64_t steps_done() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Runs one phase as one rank: states, progress and exit record as phase_request.h says; rank faults
// (kill_rank, hang_rank, flood_output, raise_exception, exit_early) happen where they are told.
// Returns whether it ended well. arithmetic: nothing means the host's; a request for another device
// then fails.
bool run_reference_phase(const PhaseRequest& request, Communicator& ranks,
                         std::shared_ptr<const Arithmetic> arithmetic = nullptr);

// The whole run of a scenario on one rank in this process: step -> logical state (0, save_after-1,
// ..., train_until).
std::map<std::int64_t, LogicalState> reference_states(
    const Settings& settings, std::shared_ptr<const Arithmetic> arithmetic = host_arithmetic());

}  // namespace resumecheck
