// Special functions for intervals: incomplete beta, Student's t, the normal quantile.
//
// Source: continued fraction of the incomplete beta function, DLMF 8.17.22, evaluated by the modified Lentz method
//         (Thompson and Barnett 1986); quantiles by bisection on the distribution function, with its accuracy.
// Cost:   microseconds; quantiles about 60 evaluations.
#pragma once

namespace varifocal::stats {

// I_x(a, b) for a, b > 0 and x in [0, 1]. Relative error below 1e-9 for a, b up to 1e5.
double RegularizedIncompleteBeta(double a, double b, double x);

double StudentTCdf(double t, double degrees);                 // degrees > 0, not necessarily an integer
double StudentTQuantile(double probability, double degrees);  // probability in (0, 1)
double NormalCdf(double z);
double NormalQuantile(double probability);

}  // namespace varifocal::stats
