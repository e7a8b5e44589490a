// A table of sums for moves of whole crowds: units at the same place, which descent never parts, move as one.
//
// Among such moves J has no part of the slopes within a crowd. Within it, for moves that leave its mean, J is a number.
#pragma once
#include "basics/checked.h"
#include "basics/packs.h"

namespace ibnn {

// Units are sorted by place. The sums themselves are those of Table.
template <class Table, class T> class CrowdTable : public Table {
 public:
  using V = Pack<T>;
  V shift = {};      // added to J's diagonal in `product`
  Array<V> company;  // how many more units are where unit i is
  Array<V> others;   // the slopes of all that are elsewhere

  void resize(long n) {
    Table::resize(n);
    n_ = n, place_ = nullptr, crowded_ = false;
    company.resize(n), others.resize(n);
  }

  // Units that are at one place here stay at one; `place` is kept by the caller.
  void gather(const V* place) {
    place_ = place;
    for (long i = 0; i < n_; ++i) company[i] = pack_of(T(1));
    sum_crowds(company.data());
    crowded_ = false;
    for (long i = 0; i < n_; ++i) company[i] -= 1, crowded_ |= any_lane(company[i] > 0);
  }
  bool crowded() const { return crowded_; }

  void evaluate(const V* z) {
    Table::evaluate(z);
    for (long i = 0; i < n_; ++i) others[i] = Table::degree[i] - company[i];
  }

  // v is the same throughout a crowd, and so is `out`: what rounding leaves is no reason to part it.
  V product(const V* v, V share, V* out) const {
    V sum = Table::product(v, share, out);
    if (any_lane(shift > 0))
      for (long i = 0; i < n_; ++i) out[i] += shift * v[i], sum += shift * v[i] * v[i];
    equalize(out);
    return sum;
  }

  // Numbers that differ within a crowd by rounding only are those of its first unit.
  void equalize(V* a) const {
    if (!crowded_) return;
    for (long i = 1; i < n_; ++i) a[i] = place_[i] == place_[i - 1] ? a[i - 1] : a[i];
  }

  // The mean of its crowd in place of every number.
  void average(V* a) const {
    if (!crowded_) return;
    sum_crowds(a);
    for (long i = 0; i < n_; ++i) a[i] = company[i] > 0 ? a[i] / (company[i] + 1) : a[i];
  }

  // J within the crowd of unit i.
  V within(long i, V share) const { return 1 - share * (Table::degree[i] + 1); }

 private:
  long n_ = 0;
  const V* place_ = nullptr;
  bool crowded_ = false;

  // The sum over its crowd in place of every number.
  void sum_crowds(V* a) const {
    for (long i = 1; i < n_; ++i) a[i] += place_[i] == place_[i - 1] ? a[i - 1] : V{};
    for (long i = n_ - 2; i >= 0; --i) a[i] = place_[i] == place_[i + 1] ? a[i + 1] : a[i];
  }
};

}  // namespace ibnn
