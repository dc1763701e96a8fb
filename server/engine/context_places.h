// Where the requests of a context go: where its first one went, whose prefix cache has its keys and values.
//
// Threads: not thread-safe.
// Cost:    a name and a place for each of the last kContextsMax contexts; earlier ones are forgotten.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace varifocal {

template <typename Place>
class ContextPlaces {
 public:
  // Null for an unknown one; valid until the next Put.
  const Place* Find(const std::string& context) const {
    const auto found = places_.find(context);
    return found == places_.end() ? nullptr : &found->second;
  }
  void Put(const std::string& context, Place place) {
    const bool is_new = places_.insert_or_assign(context, std::move(place)).second;
    if (!is_new) return;
    order_.push_back(context);
    if (order_.size() <= kContextsMax) return;
    places_.erase(order_.front());
    order_.pop_front();
  }

 private:
  static constexpr size_t kContextsMax = 10'000;

  std::map<std::string, Place> places_;
  std::deque<std::string> order_;  // of their first requests
};

}  // namespace varifocal
