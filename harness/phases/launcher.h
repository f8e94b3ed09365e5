// The command line that starts the ranks of a phase. A site's own launcher is its business, so its
// text is split as a shell would and run as it stands, with {n} replaced by the number of ranks.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace resumecheck {

// Blanks, single and double quotes, backslashes; nothing is expanded. Error(usage): an open quote.
std::vector<std::string> split_command(std::string_view text);

class Launcher {
 public:
  Launcher();  // mpirun --oversubscribe --bind-to none -np {n}
  // "srun -n {n}". Error(usage) where it is empty, does not say {n}, or names no program on PATH.
  explicit Launcher(std::string_view text);

  std::vector<std::string> command(int ranks, const std::vector<std::string>& program) const;
  // For the launcher's process: root may run Open MPI's only when this says so.
  std::map<std::string, std::string> environment() const;
  const std::string& name() const { return words_.front(); }

 private:
  std::vector<std::string> words_;
};

// The program as execvp would find it; "" where there is none.
std::string find_program(const std::string& name);

}  // namespace resumecheck
