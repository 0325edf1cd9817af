//! Previews: what a group of changes would do.

use super::plan::{Faults, Plan, Planned};
use super::registry::Registry;
use crate::change::{Action, ChangeError, Op, Ops, Preview};
use crate::machine::NodeId;
use crate::machine::cycles::CycleSearch;
use crate::vocabulary::hash::Set;

impl Registry {
    pub(super) fn preview(&mut self, ops: &mut Ops) -> Result<Preview, ChangeError> {
        self.complete(ops);
        self.machine.begin_group();
        let plan = self.check_all(ops);
        self.machine.end_group();
        let plan = plan?;
        let trial = self.machine.try_out(|machine| {
            machine.begin_group();
            for (op, Planned { node, edges }) in ops.iter().zip(&plan.planned) {
                match op.action {
                    Action::Install { .. } => machine.install(*node, edges, None),
                    Action::Uninstall { .. } => machine.uninstall(*node),
                    Action::Bounce => machine.bounce(*node),
                    Action::Park => machine.park(*node),
                    Action::Unpark => machine.unpark(*node),
                }
            }
            machine.end_group();
        });
        let shows_carriers = self.environment.shows_carriers;
        let with_node = ops.iter().zip(plan.nodes());
        let carriers = with_node.filter(|(op, _)| op.installs_carrier() && !shows_carriers);
        let others = trial.bounced.iter().chain(&trial.stopped).copied();
        // What the group installs under a name counts more than what is there now.
        let present = others.chain(plan.nodes()).filter(|node| {
            let action = plan.op_of(*node).map(|at| &ops[at].action);
            !matches!(action, Some(Action::Install { .. })) && self.is_hidden(*node)
        });
        let hidden: Set<_> = carriers.map(|(_, node)| node).chain(present).collect();
        let paths = |nodes: &mut dyn Iterator<Item = NodeId>| {
            let shown = nodes.filter(|node| !hidden.contains(node));
            let mut paths: Vec<_> = shown.map(|node| self.path(node)).collect();
            paths.sort_unstable();
            paths
        };
        let about = |is_it: &dyn Fn(&Action, NodeId) -> bool| {
            let with_node = ops.iter().zip(plan.nodes());
            paths(
                &mut with_node.filter(|(op, node)| is_it(&op.action, *node)).map(|(_, node)| node),
            )
        };
        let is_installed = |node| self.machine.view(node).is_installed;
        let installs = |action: &Action| matches!(action, Action::Install { .. });
        Ok(Preview {
            bounced: paths(&mut trial.bounced.into_iter()),
            stopped: paths(&mut trial.stopped.into_iter()),
            installed: about(&|action, node| installs(action) && !is_installed(node)),
            replaced: about(&|action, node| installs(action) && is_installed(node)),
            uninstalled: about(&|action, _| matches!(action, Action::Uninstall { .. })),
        })
    }

    fn check_all(&mut self, ops: &[Op]) -> Result<Plan, ChangeError> {
        let (mut plan, mut faults) = (Plan::default(), Faults::default());
        for at in 0..ops.len() {
            self.resolve(&mut plan, ops, at, &mut faults);
        }
        for index in 0..plan.linked.len() {
            self.check(&plan, ops, plan.linked[index], &mut faults);
        }
        let mut search = CycleSearch::new(plan.linked.len());
        while self.search_cycle(&plan, &mut search, &mut faults) {}
        faults.into_result().map(|()| plan)
    }
}
