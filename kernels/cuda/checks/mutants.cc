#include "kernels/cuda/checks/mutants.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "base/check.h"

namespace varifocal::kernels::cuda {

std::string SeenApart(uint64_t seed, const std::function<bool()>& differs) {
  std::fflush(nullptr);
  const pid_t child = fork();
  VF_CHECK(child >= 0, "a process for a mutant");
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);
    alarm(60);
    emulator::SetScheduleSeed(seed);
    _exit(differs() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status)) return WEXITSTATUS(status) == 0 ? "" : "other numbers";
  return WTERMSIG(status) == SIGABRT ? "a fault" : "signal " + std::to_string(WTERMSIG(status));
}

}  // namespace varifocal::kernels::cuda
