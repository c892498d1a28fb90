# Prepares a JSON schema of the Python package kubernetes-validate for kubeconform.
#
# Makes references lead to the file beside it instead of to kubernetes.io.
s#"[$]id"#"title"#
s#"/api/(_definitions[.]json)#"\1#
# Adds bounds and patterns: the schemas only name a format, and kubeconform does not check those.
s#"format": "int32"#&, "minimum": -2147483648, "maximum": 2147483647#
s#"format": "int64"#&, "minimum": -9223372036854775808, "maximum": 9223372036854775807#
s#"format": "date-time"#&, "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)$"#
s#"format": "byte"#&, "pattern": "^[A-Za-z0-9+/]*={0,2}$"#
/intstr[.]IntOrString": [{]/,/"integer"/s#"type"#"minimum": -2147483648, "maximum": 2147483647, &#
/resource[.]Quantity": [{]/,/"type"/s#"type"#"pattern":\
"^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$", &#
