// The alerts, the recording rules and the dashboard by the conventions of kubernetes-mixin (monitoring.mixins.dev): add
// this file to yours. Made from the files that kustomize installs, so that all say the same. docs/alerts.md.
local rule = std.parseYaml(importstr '../components/alerts/prometheus_rule.yaml');
local dashboard = import '../components/dashboard/pvc-prebinder.json';

local chosen(key) = [
  group { rules: [each for each in group.rules if std.objectHas(each, key)] }
  for group in rule.spec.groups
  if std.length([each for each in group.rules if std.objectHas(each, key)]) > 0
];

{
  _config+:: {
    // Begins runbook_url and cause_url: the address where you have the docs/ of pvc-prebinder.
    runbookBaseURL: 'docs',
    // A label that every alert gets, such as { team: 'storage' }.
    alertLabels: {},
  },

  local config = self._config,
  local linked(text) = if std.startsWith(text, 'docs/') then config.runbookBaseURL + text[4:] else text,

  prometheusAlerts+:: {
    groups+: [
      group {
        rules: [
          each {
            labels+: config.alertLabels,
            annotations: {
              [name]: if std.endsWith(name, '_url') then linked(each.annotations[name]) else each.annotations[name]
              for name in std.objectFields(each.annotations)
            },
          }
          for each in group.rules
        ],
      }
      for group in chosen('alert')
    ],
  },

  prometheusRules+:: { groups+: chosen('record') },

  grafanaDashboards+:: {
    'pvc-prebinder.json': dashboard {
      templating+: {
        list: [
          if variable.name == 'docs' then variable { query: config.runbookBaseURL } else variable
          for variable in dashboard.templating.list
        ],
      },
    },
  },
}
