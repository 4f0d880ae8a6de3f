#include "millrace/io/port_plan.hpp"
namespace millrace::io {
OpenPort plan_ethdev(const PortPlan& plan) { plan.value.fail("not yet"); }
OpenPort plan_capture(const PortPlan& plan) { plan.value.fail("not yet"); }
}
